# How far a drive keeps tenants apart: reclaim groups and namespaces.
#: memory 512M
#: subsystem fdp=on fdp.runs=16M fdp.nrg=2 fdp.nruh=4
#: namespace size=128M block=4096 ruhs=0;1
#: namespace size=128M block=4096 ruhs=2;3
#: binary larder-cli:larder
#: check exit(offers) = 0
#: check says(offers, "reclaim groups")
#: check says(offers, "isolation reclaim groups         2")
#: check says(offers, "initially isolated by handle")
#: check says(offers, "isolation namespace              2")
#: check says(offers, "plain drive")
#: check same(offers, controller)

offers() {
    larder vssd list --device "$1" | tail -n +2
}
step offers offers /dev/nvme0n1
step controller offers /dev/nvme0
