# The cache device says that it has written what it has not, for a while, and the server is killed: no block is anything but a state that it was in.
#: memory 1G
#: limit 200
#: module dm_mod
#: module dm_flakey
#: module nbd
#: namespace size=64M block=512
#: namespace size=96M block=512
#: binary larder-cli:larder
#: program dmsetup
#: program nbd-client
# Blocks that were written before and not since are intact.
#: check says(before, "0 others, 0 refused, 100 of 1")
#: check says(untouched, "0 others, 0 refused, 40 of 1")
# While the server runs, reads of the device return the content from before the lie: no checksum is read with the data.
#: check says(meanwhile, "0 others, 0 refused")
# Blocks that the device lied about have old content. Later blocks that were overwritten in place may count as torn,
# because the note that allows this was never written. Then the start reports it.
#: check says(lied_to, "0 others, 0 refused")
#: check says(behind, "0 others, 0 refused")
#: check json(found, running.found.failed_reads) = 0
#: check json(found, running.found.torn) >= number(unwritten)
#: check json(errors, errors.total) = 0
#: check exit(wrong) = 1
#: check says(wrong, "1 others")

cache=block:/dev/mapper/cache
core=/dev/mapper/core
. /served
. /sick

# block NUMBER GENERATION: 4 KiB of unique content; generation 0 is the content that was never written.
block() {
    [ $2 != 0 ] || { head -c 4096 /dev/zero; return; }
    yes "block $1 generation $2" | head -c 4096
}

# blocks FIRST LAST GENERATION: each is reported durable before the next is written.
blocks() {
    for n in $(seq $1 $2); do
        block $n $3 >/tmp/block
        dd if=/tmp/block of=/dev/nbd0 bs=4k seek=$n oflag=direct conv=notrunc,fsync 2>/dev/null || return 1
    done
}

# states FIRST LAST GENERATION...: counts the blocks of each of these generations, refused reads, and all others.
states() {
    local first=$1 last=$2 n g others=0 refused=0
    shift 2
    : >/tmp/generations
    for n in $(seq $first $last); do
        dd if=/dev/nbd0 of=/tmp/block bs=4k skip=$n count=1 iflag=direct 2>/dev/null || { refused=$((refused + 1)); continue; }
        for g in $* none; do
            block $n $g | cmp -s - /tmp/block && break
        done
        echo $g >>/tmp/generations
        [ $g != none ] || others=$((others + 1))
    done
    echo "$others others, $refused refused$(sort /tmp/generations | uniq -c | awk '{ printf ", %d of %s", $1, $2 }')"
    [ $others = 0 ]
}

step devices sick_devices
step created larder block create $cache --core block:$core --mode wb
step start started --cleaning nop
step written blocks 0 99 1
step before states 0 99 1
step lies sick cache drop_writes
step lied blocks 40 99 2
step meanwhile states 0 99 1 2
step honest well cache
step written_behind blocks 90 99 3
step killed kill -9 $(cat /tmp/pid)
step disk_gone nbd-client -d /dev/nbd0
step start_2 started --cleaning nop
step found json_of status
step untouched states 0 39 1
step lied_to states 40 89 1 2
step behind states 90 99 0 1 2 3
step unwritten sh -c "grep -cx 0 /tmp/generations; true"
step errors json_of stats
# A block with another block's content must be detected.
step swapped sh -c 'dd if=/dev/nbd0 bs=4k skip=1 count=1 iflag=direct | dd of=/dev/nbd0 bs=4k seek=2 oflag=direct conv=notrunc'
step wrong states 0 9 1
step disk_gone_2 nbd-client -d /dev/nbd0
step stop larder block stop --flush --unix /tmp/s
