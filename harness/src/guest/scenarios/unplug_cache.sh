# The drive below a cache on @TARGET@ is pulled: the cache goes on from DRAM, and says what has happened.
#: limit 240
#: memory 1G
#: variant block TARGET=block:/dev/nvme0n1
#: variant nvme TARGET=nvme:/dev/ng0n1
#: subsystem fdp=on fdp.runs=16M fdp.nruh=4
#: namespace size=256M block=4096 ruhs=0;1;2;3
#: example larder-harness:cache_on
#: binary larder-cli:larder
#: at pull device_del nvme0
#: check exit(cache) = 0
#: check millis(cache) < 120000
#: check number(wrong) = 0
#: check number(hits) > 0
#: check number(gets) = 20000
#: check number(dram_hits) > 5000
#: check number(flash_hits) = 0
#: check number(errors) > 0
#: check says(cache, "device error: the device is gone: ")
#: check says(cache, "unavailable host and media bytes: ")
#: check exit(left) != 0
#: check exit(replay) = 1
#: check says(replay, "error: ")

of() {
    sed -n "s/^$1 //p" /tmp/cache
}
pulled() {
    { usleep 3000000; mark pull; } &
    cache_on @TARGET@ --placement required --until-gone --ask 500 >/tmp/cache
    local status=$?
    cat /tmp/cache
    return $status
}
step cache pulled
step gone await 20 gone /sys/block/nvme0n1
step left ls /dev/nvme0n1 /dev/ng0n1
step wrong of wrong
step hits of hits
step gets of gone_gets
step dram_hits of gone_dram_hits
step flash_hits of gone_flash_hits
step errors of gone_device_errors
step replay larder replay --device @TARGET@ --flash 64M --requests 1000
