#!/bin/sh
# What a virtual router does once it has its disk: names its network devices, takes its addresses and starts dropbear.
# From then on it is what any small router is: a kernel, busybox, an SSH server and the VPN programs.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
handed=/run/tunnelbench-boot

busybox --install -s 2>/dev/null # what is there already stays: the packages' own programs
hostname virtual-router
mkdir -p /dev/pts /dev/shm /dev/net /run/lock /tmp
mount -t devpts -o mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmp /tmp
ln -sf /run /var/run 2>/dev/null
for module in tun ppp_generic; do modprobe "$module" 2>/dev/null; done # with their devices

# network.txt has a line for each device: its address on the cable (MAC), its name, and its own address with its network.
ip link set lo up
while read -r mac name address; do
    for folder in /sys/class/net/*; do
        if [ "$(cat "$folder/address")" = "$mac" ]; then
            ip link set "${folder##*/}" name "$name"
            ip addr add "$address" dev "$name"
            ethtool -K "$name" gro off
            ip link set "$name" up
        fi
    done
done <"$handed/network.txt"

mkdir -p /etc/dropbear /root/.ssh
chmod 700 /root /root/.ssh
cp "$handed/authorized_keys" /root/.ssh/authorized_keys
dropbearconvert openssh dropbear "$handed/host_key" /etc/dropbear/dropbear_ed25519_host_key 2>/dev/null
rm -f "$handed/host_key"
dropbear -s -r /etc/dropbear/dropbear_ed25519_host_key

echo "tunnelbench: ready after $(cut -d ' ' -f 1 /proc/uptime) s" >/dev/console

if grep -q tunnelbench.shell /proc/cmdline; then
    echo "A virtual router. What is written is kept in memory only; exit ends it." >/dev/console
    setsid cttyhack sh -l <>"/dev/$(cat /sys/class/tty/console/active)" >&0 2>&1
    reboot -f
fi
while :; do sleep 3600; done
