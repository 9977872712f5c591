# Servers of a disk that are killed while they begin, a little later each time: what is left is named and removed, by hand or by the next start, and nothing hangs.
#: memory 1G
#: limit 300
#: module ublk_drv
#: namespace size=32M block=512
#: namespace size=48M block=512
#: binary larder-cli:larder
# Kills before the disk existed, and after.
#: check number(without_disk) > 0
#: check number(with_disk) > 0
#: check number(removed) > 1
#: check number(restarted) > 1
# The next start also handled a device without a disk.
#: check says(rounds, "none, start")
#: check says(rounds, "none, hand")
#: check says(last, "no disk")
#: check same(read, source)

start() {
    larder block start block:/dev/nvme0n1 --ublk 0 --ublk-depth 4096 --control /tmp/c --cleaning nop >/tmp/started 2>&1 &
    echo $! >/tmp/pid
}

ready() {
    await 40 grep -q ^ready /tmp/started || { cat /tmp/started; return 1; }
}

# killed_at MICROSECONDS: kills this time after the driver has a device.
killed_at() {
    start
    until [ -e /dev/ublkc0 ]; do :; done
    [ $1 = 0 ] || usleep $1
    kill -9 $(cat /tmp/pid)
    wait $(cat /tmp/pid)
    await 20 gone /proc/$(cat /tmp/pid)
}

# Prints the state of what is left: none (no disk), waits (a disk whose requests wait), or nothing.
left() {
    timeout 20 larder block ublk --json /tmp/left >/dev/null || return 1
    sed -n 's/.*"served": "\(.*\)",/\1/p' /tmp/left | head -n 1
}

# Removes it by hand every other time; otherwise the next start removes it and serves.
ended() {
    if [ $1 = hand ]; then
        timeout 20 larder block ublk --remove 0 || return 1
    else
        start && ready || return 1
        timeout 20 dd if=/dev/ublkb0 of=/dev/null bs=4k count=1 iflag=direct || return 1
        timeout 20 larder block stop --control /tmp/c || return 1
        wait $(cat /tmp/pid)
    fi
    await 20 gone /dev/ublkc0 && [ -z "$(left)" ]
}

rounds() {
    local round how found
    for round in $(seq 0 19); do
        killed_at $((round / 4 * round * 400)) || { echo "round $round: not killed"; return 1; }
        found=$(left) || { echo "round $round: no list"; return 1; }
        how=hand
        [ $((round % 2)) = 0 ] || how=start
        echo "round $round: ${found:-nothing}, $how" | tee -a /tmp/rounds
        [ -n "$found" ] || how=start
        ended $how || { echo "round $round: $how has not ended it"; larder block ublk; cat /tmp/started; return 1; }
    done
}

of_rounds() { grep -c "$1" /tmp/rounds; }

served() {
    start && ready && dd if=/tmp/source of=/dev/ublkb0 bs=64k oflag=direct conv=fsync
}

step source_made sh -c 'dd if=/dev/urandom of=/tmp/source bs=1M count=4'
step created larder block create block:/dev/nvme0n1 --core block:/dev/nvme0n2 --mode wb
step rounds rounds
step without_disk of_rounds ': none'
step with_disk of_rounds ': waits'
step removed of_rounds ', hand'
step restarted of_rounds ', start'
step served served
step read sh -c 'dd if=/dev/ublkb0 bs=1M count=4 iflag=direct | sha256sum'
step source sh -c 'sha256sum </tmp/source'
step stopped larder block stop --control /tmp/c
step ended wait $(cat /tmp/pid)
step last larder block ublk
