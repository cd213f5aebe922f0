/* A sender and a receiver of UDP packets that do nothing else: the most that GSO and GRO allow on a path.
 *
 *     gso_pair send ADDRESS PORT BYTES SECONDS    sends bursts of 64 packets, and prints the number of packets
 *     gso_pair receive ADDRESS PORT               counts packets until its standard input ends, and prints their number
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BURST_PACKETS = 64, MESSAGES = 32, MESSAGE_BYTES = 65600, BUFFER_BYTES = 64 << 20, NAP_NS = 100000 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void send_packets(int fd, int bytes, double seconds)
{
    static char payload[65000];
    unsigned long packets = 0;
    if (bytes * BURST_PACKETS > (int)sizeof payload)
        fail("the packets are too long for one burst");
    if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &bytes, sizeof bytes))
        fail("UDP_SEGMENT");
    for (double end_s = now_s() + seconds; now_s() < end_s; packets += BURST_PACKETS)
        if (send(fd, payload, bytes * BURST_PACKETS, 0) < 0)
            fail("send");
    printf("%lu\n", packets);
}

static void receive_packets(int fd)
{
    static char slots[MESSAGES][MESSAGE_BYTES];
    static long controls[MESSAGES][8];
    static struct iovec parts[MESSAGES];
    static struct mmsghdr headers[MESSAGES];
    struct pollfd input = {.fd = 0, .events = POLLIN};
    unsigned long packets = 0;
    int on = 1;
    if (setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on))
        fail("UDP_GRO");
    for (;;) {
        for (int i = 0; i < MESSAGES; i++) {
            parts[i] = (struct iovec){slots[i], MESSAGE_BYTES};
            headers[i].msg_hdr = (struct msghdr){
                .msg_iov = &parts[i], .msg_iovlen = 1, .msg_control = controls[i], .msg_controllen = sizeof controls[i]};
        }
        int count = recvmmsg(fd, headers, MESSAGES, MSG_DONTWAIT, NULL);
        for (int i = 0; i < count; i++) {
            struct cmsghdr *control = CMSG_FIRSTHDR(&headers[i].msg_hdr);
            int bytes = headers[i].msg_len;
            if (control && control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO)
                memcpy(&bytes, CMSG_DATA(control), sizeof bytes);
            packets += (headers[i].msg_len + bytes - 1) / bytes;
        }
        if (count == MESSAGES)
            continue;
        if (count < 0 && poll(&input, 1, 0) > 0)
            break;
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    printf("%lu\n", packets);
}

int main(int argc, char **argv)
{
    int is_send = argc == 6 && !strcmp(argv[1], "send");
    struct sockaddr_in address = {.sin_family = AF_INET};
    int buffer_bytes = BUFFER_BYTES, fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (!is_send && !(argc == 4 && !strcmp(argv[1], "receive")))
        return fprintf(stderr, "usage: gso_pair send ADDRESS PORT BYTES SECONDS | receive ADDRESS PORT\n"), 2;
    address.sin_port = htons(atoi(argv[3]));
    if (fd < 0 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
        fail("address");
    setsockopt(fd, SOL_SOCKET, is_send ? SO_SNDBUFFORCE : SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes);
    if ((is_send ? connect : bind)(fd, (struct sockaddr *)&address, sizeof address))
        fail(is_send ? "connect" : "bind");
    if (is_send)
        send_packets(fd, atoi(argv[4]), atof(argv[5]));
    else
        receive_packets(fd);
}
