#!/bin/busybox sh
# shellcheck shell=dash
# First process of a virtual router: loads what its disk needs, and goes on from there with everything that is written
# kept in memory.

/bin/busybox mkdir -p /proc /sys /dev /lower /upper /root
/bin/busybox --install -s /bin
export PATH=/bin

fail() {
    echo "tunnelbench: $1"
    reboot -f
}

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev

# Firmware would make the PCI interrupts 10 and 11 level-triggered (register ELCR2 of the PIIX4), and QEMU starts a Malta
# without it: under load an edge is missed, and the network stands still.
if grep -q tunnelbench.level /proc/cmdline; then
    printf '\014' | dd of=/dev/port bs=1 seek=$((0x4d1)) count=1 2>/dev/null
fi

while read -r module; do
    insmod "$module" || fail "module $module cannot be loaded"
done </modules

mount -t ext4 -o ro /dev/vda /lower || fail "the disk cannot be mounted"
mount -t tmpfs -o mode=0755 upper /upper
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work root /root || fail "no overlay"
if [ -d /handed ]; then cp -a /handed /root/run/tunnelbench-boot; fi
for folder in /proc /sys /dev; do mount --move "$folder" "/root$folder"; done
exec switch_root /root /sbin/tunnelbench-init
