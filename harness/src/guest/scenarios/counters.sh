# What a cache says of the drive below while it runs, held against nvme-cli; a user without permission gets the reason.
#: memory 1G
#: subsystem fdp=on fdp.runs=16M fdp.nruh=8
#: namespace size=256M block=4096 ruhs=0;1;2;3;4;5;6;7
#: example larder-harness:cache_on
#: check number(wrong) = 0
#: check number(active) = 1
#: check says(placed, "placement_path write streams")
#: check number(looks) > 2
#: check number(host) = hbmw(after)
#: check number(media) = mbmw(after)
#: check number(host_here) = hbmw(after) - hbmw(before)
#: check number(media_here) = mbmw(after) - mbmw(before)
#: check number(host_here) <= number(ours)
#: check number(host_here) >= number(ours) - number(page_cache)
#: check number(page_cache) < 1M
#: check number(media_here) > number(host_here)
#: check number(events) > 0
#: check says(placed, "handle 1 unit_not_fully_written")
#: check says(unplaced, "placement_active 0")
#: check says(unplaced, "placement_path none")
#: check says(unplaced, "drives 0")
#: check says(denied, "placement_path NVMe passthrough")
#: check says(denied, "unavailable host and media bytes: no permission")
#: check says(denied, "unavailable FDP events: no permission")
#: check says(denied, "wrong 0")

of() {
    sed -n "s/^$2 //p" /tmp/$1
}
placed() {
    cache_on block:/dev/nvme0n1 --placement required --seconds 4 --ask 500 | tee /tmp/placed
}
mkdir -p /etc
echo 'nobody:x:65534:65534::/tmp:/bin/sh' >/etc/passwd
for handle in 0 1 2 3 4 5 6 7; do
    nvme fdp set-events /dev/nvme0n1 --placement-handle=$handle --enable --event-types=0,1,2,3,128,129
done
step before nvme fdp stats /dev/nvme0 -e 1
# Closing a reclaim unit before it is full is an event, and costs media bytes: its remaining space.
{ usleep 2500000; nvme fdp update /dev/nvme0n1 --pids=1; } >/dev/null 2>&1 &
step placed placed
step after nvme fdp stats /dev/nvme0 -e 1
step wrong of placed wrong
step active of placed placement_active
step looks of placed looks
step host of placed closed_host_bytes_ever
step media of placed closed_media_bytes_ever
step host_here of placed closed_since_open_host_bytes
step media_here of placed closed_since_open_media_bytes
step ours of placed closed_written_bytes
step page_cache of placed closed_page_cache_bytes
step events of placed "events 00h"
step unplaced cache_on block:/dev/nvme0n1 --placement off --seconds 1 --ask 0
chmod 666 /dev/nvme0n1 /dev/ng0n1
step denied su -s /bin/sh nobody -c "cache_on nvme:/dev/ng0n1 --placement required --seconds 1 --ask 200"
