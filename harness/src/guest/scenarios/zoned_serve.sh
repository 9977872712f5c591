# A server whose cache is on the zones of a namespace: it finds its content after a clean end, and nothing old after a kill.
#: memory 768M
#: limit 300
#: namespace size=256M block=4096 zoned=8M+10+12
#: binary larder-cli:larder
#: check says(first, "STORED")
#: check says(flash, "in /dev/nvme0n1, in zones of 8.00 MiB")
#: check says(second, "rye")
#: check says(replaced, "STORED")
#: check says(killed, "END")
#: check says(killed, "rye") = 0
#: check says(several, "a zoned drive for 2 tenants")

ifconfig lo up
begin() {
    larder serve --memory 48M --file /dev/nvme0n1 --memcached 127.0.0.1:11211 --resp none --admin none \
        --workers 1 >/tmp/said 2>&1 &
    server=$!
    for _ in $(seq 300); do
        grep -q ready /tmp/said && return
        usleep 100000
    done
    cat /tmp/said
    exit 1
}
ask() {
    printf '%b' "$1\r\nquit\r\n" | nc 127.0.0.1 11211
}
begin
step first ask 'set bread 0 0 3\r\nrye'
step flash grep flash /tmp/said
kill -TERM $server
wait $server
begin
step second ask 'get bread'
step replaced ask 'set bread 0 0 3\r\noat'
kill -KILL $server
wait $server
begin
step killed ask 'get bread'
kill -TERM $server
wait $server
cat >/tmp/two.toml <<TOML
file = "/dev/nvme0n1"
[[tenant]]
name = "a"
share = 50
[[tenant]]
name = "b"
share = 50
TOML
several() {
    larder serve --config /tmp/two.toml --memcached 127.0.0.1:11211 --resp none --admin none 2>&1 || true
}
step several several
