#!/bin/sh
# The first process of a guest whose root is the controller's machine, to be read only. It mounts what a program may
# write to, starts the worker on the serial ports that lead to the controller, and ends the guest with it. No udev and no
# service is started: without hardware virtualisation they would take longer than everything else.
#
# The kernel hands it as environment what it finds on its command line: tunnelbench_python, tunnelbench_cache and
# tunnelbench_modules.

: "${tunnelbench_python:?}" "${tunnelbench_cache:?}" "${tunnelbench_modules:?}"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/run/home TMPDIR=/run/tmp LANG=C.UTF-8 PYDANTIC_DISABLE_PLUGINS=1

options=version=9p2000.L,trans=virtio,access=any,msize=524288,cache=loose,ro

# The root that the initramfs has mounted reads every file anew each time; a second view of the same files does not.
if [ "$tunnelbench_stage" != inside ]; then
    mount -t tmpfs run /run
    mkdir /run/root
    mount -t 9p -o "$options" virtme.initmount1 /run/root
    export tunnelbench_stage=inside
    exec chroot /run/root "$0"
fi

mount -t proc -o nosuid,noexec,nodev proc /proc
mount -t sysfs -o nosuid,noexec,nodev sys /sys
mount -t devtmpfs -o mode=0755,nosuid dev /dev 2>/dev/null
mount -t tmpfs -o mode=0755 run /run
mkdir -p /dev/pts /dev/shm /run/home /run/tmp /run/lock "$tunnelbench_cache"
mount -t devpts -o mode=620,noexec,nosuid devpts /dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev shm /dev/shm
for folder in /var/tmp /var/log /var/lib/private; do
    if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder"; fi
done
# Programs write to /tmp by its name, and this one may lie there.
mkdir /run/tmp-of-the-machine
mount --bind /tmp /run/tmp-of-the-machine
mount -t tmpfs -o mode=1777 tmpfs /tmp
ln -s /run/tmp-of-the-machine/* /tmp/ 2>/dev/null
mount -t 9p -o "$options" virtme.initmount0 "$tunnelbench_cache"
ip link set lo up
echo "init: ready for the worker after $(cut -d ' ' -f 1 /proc/uptime) s" >/dev/console

# port NAME: the device of a serial port by the name that QEMU gave it.
port() {
    for folder in /sys/class/virtio-ports/*; do
        if [ "$(cat "$folder/name")" = "$1" ]; then echo "/dev/${folder##*/}"; fi
    done
}

"$tunnelbench_python" -X "pycache_prefix=$tunnelbench_cache/bytecode" -m tunnelbench.guest.worker \
    "$tunnelbench_modules" <"$(port virtme.stdin)" >"$(port virtme.stdout)" 2>"$(port virtme.stderr)"
echo o >/proc/sysrq-trigger
sleep 60
