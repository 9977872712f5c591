# Requests that a drive gets in several pieces, by NBD and alone: each ends, though nothing else wakes the server.
#: memory 1G
#: limit 200
#: namespace size=96M block=512
#: namespace size=32M block=512
#: binary larder-cli:larder
#: program qemu-io
#: check says(all, "20 of 20")

started() {
    larder block start block:/dev/nvme0n2 --unix /tmp/s --cleaning nop >/tmp/started 2>&1 &
    await 30 test -S /tmp/s
}

written() {
    local n=0
    while [ $n -lt 20 ]; do
        timeout 10 qemu-io -f raw -c "write -P 5 $n"M" 3M" 'nbd+unix:///0?socket=/tmp/s' || break
        n=$((n + 1))
    done
    echo "$n of 20"
}

step create larder block create block:/dev/nvme0n2 --core block:/dev/nvme0n1 --mode wb
step start started
step all written
