# The cache $cache in front of the core $core, as /dev/nbd0 by the kernel's own client and as a file system at /fs. A
# scenario reads it with `. /served`.
. /writers

# started OPTION...: serves the core, and connects the kernel's client over two connections.
started() {
    rm -f /tmp/s
    larder block start $cache --unix /tmp/s --threads 2 "$@" >/tmp/started 2>&1 &
    echo $! >/tmp/pid
    await 30 grep -q ready /tmp/started && attached
}

attached() {
    nbd-client -unix /tmp/s -N 0 -C 2 /dev/nbd0 && await 10 is_there
}

# Removes the file system, whatever its state, and the disk; the server continues to run.
unmounted() {
    umount /fs
    nbd-client -d /dev/nbd0
    await 10 no_disk
}

no_disk() {
    [ "$(blockdev --getsize64 /dev/nbd0)" = 0 ]
}

is_there() {
    [ "$(blockdev --getsize64 /dev/nbd0)" = "$(blockdev --getsize64 $core)" ]
}

# json_of COMMAND: the running cache's answer.
json_of() {
    larder block $1 --unix /tmp/s --json /tmp/json >/dev/null && cat /tmp/json
}

# is_healthy true, or false: whether the cache device is in use.
is_healthy() {
    json_of status | grep -q "\"healthy\": $1"
}

# Kills the server and then removes the disk.
killed_now() {
    kill -9 $(cat /tmp/pid)
    wait $(cat /tmp/pid)
    unmounted
}

# The checksum of a device or a disk.
sum_of() {
    dd if=$1 bs=1M iflag=direct 2>/dev/null | sha256sum
}

# killed FILES: lets writers work until FILES more files are synced; then kills the server and removes the disk.
killed() {
    local before=$(wc -l </tmp/files)
    write_files k$before 1 5000 &
    local files=$!
    write_rows wal $(next_row) 100000 &
    local rows=$!
    await 120 more_files $((before + $1))
    kill -9 $(cat /tmp/pid)
    wait $(cat /tmp/pid)
    wait $files
    wait $rows
    echo $(($(wc -l </tmp/files) - before))
    umount /fs
    nbd-client -d /dev/nbd0 >/dev/null
}

# The kernel replays the journal; afterwards no repair may be needed.
replayed() {
    mount -t ext4 /dev/nbd0 /fs && umount /fs && e2fsck -fn /dev/nbd0 && mount -t ext4 /dev/nbd0 /fs
}

# Cleanly: unmounts the disk, checks it, and mounts it again.
checked() {
    umount /fs && e2fsck -fn /dev/nbd0 && mount -t ext4 "$@" /dev/nbd0 /fs
}
