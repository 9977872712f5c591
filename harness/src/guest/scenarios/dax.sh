# A block cache in persistent memory, on a file that is mapped with MAP_SYNC: written, killed, started again.
#: memory 1G
#: limit 600
#: boot memmap=256M!384M
#: module nd_e820
#: module nd_pmem
#: namespace size=64M block=512
#: binary larder-cli:larder
#: program mkfs.ext4
#: program qemu-io
#: check says(status, "is mapped with MAP_SYNC")
#: check says(created, "MAP_SYNC")
#: check says(again, "is mapped with MAP_SYNC")
#: check exit(wrong) = 7
#: check says(emulated, "is emulated")
#: check says(flushed, "256.50 KiB; 0 B dirty")
#: check same(core, expected)

disk='nbd+unix:///0?socket=/tmp/s'

started() {
    larder block start dax:/mnt/cache --unix /tmp/s --cleaning nop >/tmp/started 2>&1 &
    echo $! >/tmp/pid
    await 30 test -S /tmp/s
}

# Writes 64 blocks at odd offsets durably, each with its own pattern.
written() {
    for n in $(seq 1 64); do
        qemu-io -f raw -c "write -f -P $n $((n * 36864)) 4k" "$disk" || return 1
    done
    qemu-io -f raw -c 'write -f -P 65 512 512' "$disk"
}

verified() {
    for n in $(seq 1 64); do
        qemu-io -f raw -c "read -P $n $((n * 36864)) 4k" "$disk" | grep -v 'verification failed' || return 1
    done
    qemu-io -f raw -c 'read -P 65 512 512' "$disk"
}

killed() {
    kill -9 $(cat /tmp/pid)
    await 10 gone /proc/$(cat /tmp/pid)
    rm -f /tmp/s
}

step modules_there await 20 test -b /dev/pmem0
step mkfs mkfs.ext4 -q -b 4096 /dev/pmem0
mkdir -p /mnt
step mount mount -t ext4 -o dax /dev/pmem0 /mnt
step file truncate -s 128M /mnt/cache
step created larder block create dax:/mnt/cache --core block:/dev/nvme0n1 --mode wb
step status larder block status dax:/mnt/cache
step start started
step write written
step wrong sh -c "qemu-io -f raw -c 'read -P 9 36864 4k' '$disk' | grep -q 'verification failed' && exit 7"
step kill killed
step start_again started
step again cat /tmp/started
step read verified
step flushed larder block flush --unix /tmp/s
step core sh -c 'dd if=/dev/nvme0n1 bs=4096 skip=9 count=1 2>/dev/null | sha256sum'
step expected sh -c "head -c 4096 /dev/zero | tr '\\000' '\\001' | sha256sum"
step stop larder block stop --unix /tmp/s
step other sh -c 'truncate -s 64M /tmp/other'
step emulated larder block create dax:/tmp/other --core block:/dev/nvme0n1
