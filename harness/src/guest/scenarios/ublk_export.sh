# Disks of the kernel's without a cache: those without a server are reported, refused to others, and removed.
#: memory 1G
#: limit 200
#: module ublk_drv
#: namespace size=32M block=4096
#: binary larder-cli:larder
#: check same(read, source)
#: check exit(ended) = 0
#: check number(block) = 4096
#: check number(read_only) = 1
#: check exit(write) != 0
#: check says(list, "WAITS")
#: check says(other, "another export")
#: check exit(other) = 2
#: check exit(larger) = 2
#: check says(larger, "cannot be taken over")
#: check says(again, "taken over")
#: check says(removed, "/dev/ublkb5")
#: check says(nothing, "no disk")
#: check exit(nobody) = 2
#: check says(nobody, "for root")
#: check exit(stuck) != 0
#: check says(missing, "modprobe ublk_drv")

export_as() {
    larder block export "$@" >/tmp/exported 2>&1 &
    echo $! >/tmp/pid
    await 30 grep -q ^ready /tmp/exported && cat /tmp/exported
}

ended() {
    kill $(cat /tmp/pid)
    wait $(cat /tmp/pid)
}

killed() {
    kill -9 $(cat /tmp/pid)
    await 20 gone /proc/$(cat /tmp/pid)
}

# Requests of every length, several in flight.
written() {
    dd if=/tmp/source of=/dev/ublkb5 bs=1M count=8 oflag=direct conv=notrunc && \
        dd if=/tmp/source of=/dev/ublkb5 bs=1k count=100 skip=8193 seek=8193 oflag=direct conv=notrunc
}

step source_made sh -c 'dd if=/dev/urandom of=/tmp/source bs=1M count=9; truncate -s 32M /tmp/disk'
step memory export_as memory:16M --ublk 5 --ublk-depth 7
step write_in written
step read sh -c 'dd if=/dev/ublkb5 bs=64k count=130 | head -c 8388608 | sha256sum'
step source sh -c 'head -c 8388608 /tmp/source | sha256sum'
step ended ended
step gone await 10 gone /dev/ublkb5
step drive export_as block:/dev/nvme0n1 --ublk --read-only
step block cat /sys/block/ublkb0/queue/logical_block_size
step read_only cat /sys/block/ublkb0/ro
step write dd if=/tmp/source of=/dev/ublkb0 bs=4k count=1 oflag=direct conv=notrunc
step drive_ended ended
step file export_as /tmp/disk --ublk 5
step kill killed
step list larder block ublk
step other larder block export memory:32M --ublk 5
step shrink truncate -s 33M /tmp/disk
step larger larder block export /tmp/disk --ublk
step shrink_back truncate -s 32M /tmp/disk
step again export_as /tmp/disk --ublk
step kill_again killed
dd if=/tmp/source of=/dev/ublkb5 bs=4k count=1 oflag=direct conv=notrunc 2>/tmp/stuck &
echo $! >/tmp/dd
usleep 500000
step removed larder block ublk --remove 5
step stuck wait $(cat /tmp/dd)
step nothing larder block ublk
mkdir -p /etc
echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
step nobody su -s /bin/sh nobody -c 'larder block ublk'
rmmod ublk_drv
step missing sh -c 'larder block export memory:1M --ublk; true'
