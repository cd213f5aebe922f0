/* A library for LD_PRELOAD that makes the ciphers of OpenSSL slower: for each byte that a program enciphers or deciphers,
 * a loop of three instructions is executed TURNS_PER_256_BYTES / 256 times. It needs no header of the C library, so that
 * a compiler for the router's CPU is enough to build it.
 */
#define THE_NEXT_ONE ((void *)-1L) /* RTLD_NEXT */

extern void *dlsym(void *library, const char *name);

int EVP_CipherUpdate(void *context, unsigned char *out, int *out_length, const unsigned char *in, int length)
{
    static int (*update)(void *, unsigned char *, int *, const unsigned char *, int);
    long turns = out && length > 0 ? (long)length * TURNS_PER_256_BYTES / 256 : 0; /* without `out`: no data */

    if (!update)
        update = (int (*)(void *, unsigned char *, int *, const unsigned char *, int))dlsym(THE_NEXT_ONE, "EVP_CipherUpdate");
    if (turns > 0)
        __asm__ volatile(".set push\n.set noreorder\n1: addiu %0, %0, -1\nbnez %0, 1b\nnop\n.set pop" : "+r"(turns));
    return update(context, out, out_length, in, length);
}
