# Devices that fail on command: /dev/mapper/cache is /dev/nvme0n1, /dev/mapper/core is /dev/nvme0n2. A scenario reads it
# with `. /sick` and needs the modules dm_mod and dm_flakey.
export DM_DISABLE_UDEV=1

sick_devices() {
    dmsetup create cache --table "$(table cache linear)" && dmsetup create core --table "$(table core linear)"
}

# table NAME TARGET WORD...
table() {
    local below=/dev/nvme0n1
    [ $1 = cache ] || below=/dev/nvme0n2
    local target=$2
    shift 2
    echo 0 $(blockdev --getsz $below) $target $below 0 $*
}

# Requests in flight end under the old table.
as() {
    dmsetup load $1 --table "$(table "$@")" && dmsetup resume $1
}

well() {
    as $1 linear
}

# sick NAME [WHAT]: WHAT is error_writes or drop_writes; without it every request fails.
sick() {
    as $1 flakey 0 100000 ${2:+1 $2}
}
