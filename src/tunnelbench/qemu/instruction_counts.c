/* A plugin for QEMU that counts the executed instructions of a virtual machine with one CPU, by address.
 *
 * QEMU translates a guest's code in blocks of consecutive instructions. The plugin adds the length of a block to the
 * count of the block's address each time that the block is executed. The counts are in a file, COUNTS, which other
 * programs can read at any time:
 *
 *     uint64_t used;                                       number of the entries that follow
 *     struct { uint64_t address, instructions; } entry[];  the first is for blocks that have no entry of their own
 *
 * The declarations are those of QEMU's plugin interface (docs/devel/tcg-plugins.rst), so that QEMU's header, which
 * Debian does not package, is not needed.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* QEMU ends a block where the virtual CPU's time is over, and the next block begins there: after some minutes many
 * addresses are the beginning of a block. Only the used part of the file takes memory. */
#define ENTRIES (1 << 21)
#define PLACES_BITS 23 /* the hash table is several times as large */
#define PLACES (1 << PLACES_BITS)
#define VISIBLE __attribute__((visibility("default")))

struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*translated)(uint64_t id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, void (*executed)(unsigned cpu, void *data),
                                          int registers, void *data);
/* QEMU 9.1 and later do not have this function. */
__attribute__((weak)) void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
                                                                    void *count, uint64_t added);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);

enum { NO_REGISTERS = 0, ADD_U64 = 0 };
enum { LENGTH_BITS = 16 };

struct entry {
    uint64_t address, instructions;
};

struct counts {
    uint64_t used;
    struct entry entry[ENTRIES];
};

VISIBLE int qemu_plugin_version = PLUGIN_VERSION;

static struct counts *counts;
static uint32_t places[PLACES]; /* index of an entry; 0: free */

static uint32_t index_of(uint64_t address)
{
    uint32_t place = (uint32_t)((address * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - PLACES_BITS));
    while (places[place]) {
        if (counts->entry[places[place]].address == address)
            return places[place];
        place = (place + 1) & (PLACES - 1);
    }
    if (counts->used == ENTRIES)
        return 0;
    counts->entry[counts->used].address = address;
    places[place] = (uint32_t)counts->used;
    return (uint32_t)counts->used++;
}

static void executed(unsigned cpu, void *data)
{
    uintptr_t value = (uintptr_t)data;
    (void)cpu;
    counts->entry[value >> LENGTH_BITS].instructions += value & ((1 << LENGTH_BITS) - 1);
}

static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
    uint64_t length = qemu_plugin_tb_n_insns(block);
    uint32_t index = index_of(qemu_plugin_tb_vaddr(block));
    (void)id;
    if (qemu_plugin_register_vcpu_tb_exec_inline) {
        qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &counts->entry[index].instructions, length);
    } else {
        uintptr_t value = ((uintptr_t)index << LENGTH_BITS) | length;
        qemu_plugin_register_vcpu_tb_exec_cb(block, executed, NO_REGISTERS, (void *)value);
    }
}

VISIBLE int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    static const char option[] = "counts=";
    int file;
    (void)info;
    if (argc != 1 || strncmp(argv[0], option, sizeof option - 1) != 0)
        return -1;
    file = open(argv[0] + sizeof option - 1, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *counts) != 0)
        return -1;
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (counts == MAP_FAILED)
        return -1;
    counts->used = 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
