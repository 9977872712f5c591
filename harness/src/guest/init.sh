#!/bin/busybox sh
# The init process of the guest. It runs /scenario and writes the results to the second serial port, in frames that
# contain lengths, so that no output can be mistaken for a frame. Then it powers off.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs tmp /tmp
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
stty -F /dev/ttyS1 raw -echo
exec 3>/dev/ttyS1

uptime_now() {
    cut -d ' ' -f 1 /proc/uptime
}

# step NAME COMMAND...: runs a command, or a function of the scenario, and reports the result.
step() {
    local name=$1 begin status
    shift
    echo "@begin $name" >&3
    begin=$(uptime_now)
    "$@" >/tmp/step.out 2>/tmp/step.err </dev/null
    status=$?
    echo "@end $name $status $(stat -c %s /tmp/step.out) $(stat -c %s /tmp/step.err) $begin $(uptime_now)" >&3
    cat /tmp/step.out /tmp/step.err >&3
    echo >&3
}

# mark NAME: notifies the host, which may then pull a drive.
mark() {
    echo "@mark $1" >&3
}

# await SECONDS COMMAND...: retries the command until it succeeds.
await() {
    local left=$(($1 * 10))
    shift
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        usleep 100000
    done
}

drives_are_there() {
    for node in $(cat /expected); do
        [ -e "$node" ] || return 1
    done
}

# Since Linux 6.11 namespaces are scanned in parallel, and get numbers in the order in which they are found.
drives_are_in_order() {
    for disk in /sys/block/nvme0n*; do
        [ "$(cat $disk/nsid)" = "${disk##*nvme0n}" ] || return 1
    done
}

# Scans again until each namespace has its own number.
drives_are_found() {
    local left=40 pci
    until await 20 drives_are_there && drives_are_in_order; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        pci=$(basename $(readlink -f /sys/class/nvme/nvme0/device))
        echo "$(cat /sys/block/nvme0n1/nsid) is called 1"
        echo $pci >/sys/bus/pci/drivers/nvme/unbind
        await 10 gone /dev/nvme0
        echo $pci >/sys/bus/pci/drivers/nvme/bind
    done
}

gone() {
    [ ! -e "$1" ]
}

load_modules() {
    for module in /modules/*; do
        insmod "$module" || return 1
    done
}

[ ! -d /modules ] || step modules load_modules
step drives drives_are_found
. /scenario
echo "@done" >&3
# The close waits until the port has sent everything.
exec 3>&-
poweroff -f
