# Writes to a cache and to its core are logged apart, with marks of the same moments: what each has made durable by itself is a sound file system and database.
#: memory 1G
#: limit 400
#: module dm_mod
#: module dm_log_writes
#: module nbd
#: module loop
# A mark is put into both logs while both devices are idle. Before the mark are the writes that a flush of their own
# device has covered, or that were durable by themselves. Replaying both logs up to it gives the worst state after a
# loss of power at that moment, which shows whether the core or the cache device lacks a flush. It does not show states
# in which a device kept unflushed writes, nor moments with requests in flight; block_log_writes covers the latter.
#: namespace size=8M block=512
#: namespace size=32M block=512
#: namespace size=256M block=512
#: namespace size=256M block=512
#: binary larder-cli:larder
#: example larder-device:log_writes
#: program dmsetup
#: program nbd-client
#: program mkfs.ext4
#: program e2fsck
#: program sqlite3
#: check same(of_cache, of_core)
#: check number(moments) >= 100
# The log has wrapped around: reclaimed data was destaged before.
#: check number(written) > 12M
#: check number(while_flushed) >= 1
#: check says(replayed, "by recover")
#: check says(replayed, "by start")
#: check number(judged) >= 30
#: check number(files_judged) >= 500
#: check exit(core_alone) != 0
#: check exit(too_early) = 1

export DM_DISABLE_UDEV=1

devices() {
    dmsetup create cache --table '0 16384 log-writes /dev/nvme0n1 /dev/nvme0n3' &&
        dmsetup create core --table '0 65536 log-writes /dev/nvme0n2 /dev/nvme0n4'
}

cat >/bin/logged <<'END'
#!/bin/sh
dmsetup suspend cache && dmsetup suspend core && dmsetup message cache 0 mark $1 && dmsetup message core 0 mark $1
marked=$?
dmsetup resume core && dmsetup resume cache && exit $marked
END
chmod +x /bin/logged
. /logged

# Flushes while marks are made.
flushed() {
    local n=0
    larder block flush --unix /tmp/s &
    local flush=$!
    while [ -e /proc/$flush/exe ]; do
        n=$((n + 1))
        logged t-$n || return 1
    done
    wait $flush
}


marks_of() {
    log_writes marks /dev/nvme0n$1
}

# Every third mark, those within a flush, and the last.
moments() {
    marks_of 3 >/tmp/of_cache && marks_of 4 >/tmp/of_core && wc -l </tmp/of_cache &&
        awk '{ print $2 }' /tmp/of_cache | awk 'NR % 3 == 0 || /^(t-|mkfs|end)/' >/tmp/points
}

number_at() {
    awk -v mark=$2 '$2 == mark { print $1 }' /tmp/of_$1
}

replayed() {
    local from_cache=0 from_core=0 to_cache to_core mark
    judged=0 files_judged=0
    truncate -s 8M /tmp/image_of_cache && truncate -s 32M /tmp/image_of_core || return 1
    : >/tmp/marks
    for mark in $(cat /tmp/points); do
        to_cache=$(number_at cache $mark)
        to_core=$(number_at core $mark)
        log_writes replay /dev/nvme0n3 /tmp/image_of_cache --from $from_cache --to $to_cache >>/tmp/marks || return 1
        log_writes replay /dev/nvme0n4 /tmp/image_of_core --from $from_core --to $to_core >/dev/null || return 1
        from_cache=$to_cache
        from_core=$to_core
        grep -qx mkfs /tmp/marks || continue
        cp /tmp/image_of_cache /tmp/cache && cp /tmp/image_of_core /tmp/core || return 1
        judged_at $mark 4 || return 1
    done
    echo $judged >/tmp/judged
    echo $files_judged >/tmp/files_judged
}

mkdir -p /fs
step devices devices
step created larder block create block:/dev/mapper/cache --core block:/dev/mapper/core --mode wb --segment 256K
step start served block:/dev/mapper/cache /tmp/s --cleaning nop --cut-off never
step made made
step worked worked
step ended wait $(cat /tmp/pid)
step last logged end
step written awk '{ print $7 * 512 }' /sys/class/block/dm-0/stat
step closed dmsetup remove cache core
step moments moments
step of_cache awk '{ print $2 }' /tmp/of_cache
step of_core awk '{ print $2 }' /tmp/of_core
step while_flushed grep -c '^t-' /tmp/points
step replayed replayed
step judged cat /tmp/judged
step files_judged cat /tmp/files_judged
step core_alone e2fsck -fn /tmp/core_alone
step too_early too_early
