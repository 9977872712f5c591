# Every write to a cache and its core is logged; what a loss of power leaves behind any flush is a sound file system and database.
#: memory 1G
#: limit 600
#: module dm_mod
#: module dm_log_writes
#: module nbd
#: module loop
# The cache device and the core are two ranges of the first namespace, so that its log has a single order. A flush of
# either makes both durable.
#: namespace size=64M block=512
#: namespace size=384M block=512
#: binary larder-cli:larder
#: example larder-device:log_writes
#: program dmsetup
#: program nbd-client
#: program mkfs.ext4
#: program e2fsck
#: program sqlite3
#: check number(points) >= 60
#: check says(replayed, "by recover")
#: check says(replayed, "by start")
#: check number(judged) >= 45
#: check number(files_judged) >= 600
# If nothing has been destaged, the core alone is not a file system.
#: check exit(core_alone) != 0
# A check for data that was written after a point must report that it does not exist.
#: check exit(too_early) = 1

export DM_DISABLE_UDEV=1

devices() {
    dmsetup create log --table '0 114688 log-writes /dev/nvme0n1 /dev/nvme0n2' &&
        dmsetup create cache --table '0 49152 linear /dev/mapper/log 0' &&
        dmsetup create core --table '0 65536 linear /dev/mapper/log 49152'
}

cat >/bin/logged <<'END'
#!/bin/sh
dmsetup message log 0 mark $1
END
chmod +x /bin/logged
. /logged

flushed() {
    larder block flush --unix /tmp/s
}

replayed() {
    local from=0
    judged=0 files_judged=0
    truncate -s 56M /tmp/image
    : >/tmp/marks
    for to in $(cat /tmp/points); do
        log_writes replay /dev/nvme0n2 /tmp/image --from $from --to $to >>/tmp/marks || return 1
        from=$to
        grep -qx mkfs /tmp/marks || continue
        dd if=/tmp/image of=/tmp/cache bs=1M count=24 2>/dev/null
        dd if=/tmp/image of=/tmp/core bs=1M skip=24 2>/dev/null
        judged_at "entry $to" 6 || return 1
    done
    echo $judged >/tmp/judged
    echo $files_judged >/tmp/files_judged
}

mkdir -p /fs
step devices devices
step created larder block create block:/dev/mapper/cache --core block:/dev/mapper/core --mode wb --segment 512K
step start served block:/dev/mapper/cache /tmp/s --cleaning nop --cut-off never
step made made
step worked worked
step ended wait $(cat /tmp/pid)
step closed dmsetup remove cache core log
log_writes points /dev/nvme0n2 --count 75 >/tmp/points
step points sh -c 'wc -l </tmp/points'
step replayed replayed
step judged cat /tmp/judged
step files_judged cat /tmp/files_judged
step core_alone e2fsck -fn /tmp/core_alone
step too_early too_early
