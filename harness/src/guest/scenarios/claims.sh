# A namespace has one cache, whichever of its two nodes it is opened by: the second is refused.
#: memory 1G
#: subsystem fdp=on fdp.runs=16M fdp.nruh=4
#: namespace size=256M block=4096 ruhs=0;1;2;3
#: example larder-harness:cache_on
#: check exit(beside_block) = 1
#: check says(beside_block, "in use")
#: check says(block, "wrong 0")
#: check exit(beside_ng) = 1
#: check says(beside_ng, "in use")
#: check says(ng, "wrong 0")
#: check exit(after) = 0

# It runs longer than the second one waits for the claim.
first() {
    cache_on "$1" --placement required --seconds 14 --ask 0 >/tmp/first 2>&1 &
    usleep 3000000
}
second() {
    cache_on "$1" --placement required --seconds 1 --ask 0
}
ended() {
    wait
    cat /tmp/first
}
first block:/dev/nvme0n1
step beside_block second nvme:/dev/ng0n1
step block ended
first nvme:/dev/ng0n1
step beside_ng second block:/dev/nvme0n1
step ng ended
step after second block:/dev/nvme0n1
