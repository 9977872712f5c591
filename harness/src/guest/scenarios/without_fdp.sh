# A drive without FDP, a namespace that may only be read, a user without rights: one clear error each.
#: memory 1G
#: subsystem fdp=off
#: namespace size=64M block=4096
#: namespace size=16M block=512 readonly
#: example larder-device:device_check
#: check exit(required) = 1
#: check says(required, "placement is required and there is none")
#: check says(preferred, "notice:")
#: check says(preferred, "differences: 0")
#: check exit(read_only) = 1
#: check exit(denied) = 1
#: check says(denied, "ermission denied")

# The kernel scans namespaces in parallel, so their names are random.
named() {
    echo /dev/$(grep -lx "$1" /sys/block/nvme0n*/nsid | cut -d / -f 4)
}
mkdir -p /etc
echo 'nobody:x:65534:65534::/tmp:/bin/sh' >/etc/passwd
step required device_check $(named 1) --placement required --ops 1000
step preferred device_check $(named 1) --placement preferred --ops 4000
step read_only device_check $(named 2) --ops 1000
step denied su -s /bin/sh nobody -c "device_check $(named 1) --ops 1000"
