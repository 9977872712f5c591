#!/bin/sh
# Translates memcached's options to those of `larder serve`. LARDER is the program; LARDER_SOCKETS says how it waits for
# sockets.
connections=1024 memory=64 value=1048576 host=127.0.0.1 port=11211 socket= threads=4 idle=0 daemon= pid= users=
die() { echo "$1" >&2; exit 64; }
bytes() {
    case $1 in
        *[kK]) echo $((${1%?} * 1024)) ;;
        *[mM]) echo $((${1%?} * 1048576)) ;;
        *) echo "$1" ;;
    esac
}
for word; do
    case $word in --help) set -- -h ;; esac
done
while getopts 'p:U:s:a:c:m:I:l:t:o:Y:P:b:B:R:u:f:n:L:W:hVdAFCMSvki' option; do
    case $option in
        h) echo 'memcached as larder: -s, --unix-socket=<file>  -p  -l  -c  -m  -I  -t'; exit 0 ;;
        V) echo 'memcached larder'; exit 0 ;;
        p) port=$OPTARG; [ "$port" = -1 ] && port=0 ;;
        s) socket=$OPTARG ;;
        c) connections=$OPTARG; [ "$connections" -gt 0 ] || die 'connections must be greater than 0' ;;
        m) memory=$OPTARG ;;
        I) value=$(bytes "$OPTARG"); [ "$value" -ge 1024 ] || die 'item max size must be at least 1024' ;;
        l) host=$OPTARG ;;
        t) threads=$OPTARG; [ "$threads" -gt 0 ] || die 'threads must be greater than 0' ;;
        B) case $OPTARG in auto | ascii | binary) ;; *) die "no protocol $OPTARG" ;; esac ;;
        o) case $OPTARG in *idle_timeout=*) idle=${OPTARG##*idle_timeout=}; idle=${idle%%,*} ;; esac ;;
        Y) users=$OPTARG ;;
        d) daemon=1 ;;
        P) pid=$OPTARG ;;
        S) die 'no SASL without users' ;;
        # Options without an effect: UDP, access masks, users to switch to, slabs, yields, verbosity.
        [UaubfnLRWvki]) ;;
        # Options that clients are not offered: see the reasons of the test files that need them.
        [AFCM]) ;;
        *) die "unknown option" ;;
    esac
done
if [ -n "$socket" ]; then endpoint=unix:$socket; else endpoint=$host:$port; fi
set -- serve --memcached "$endpoint" --resp none --admin none --allow-unprotected --flash 0 --memory "${memory}M" --workers "$threads" \
    --connections "$connections" --value-max "$value" --idle-timeout "$idle" --drain 0 \
    --sockets "${LARDER_SOCKETS:-io_uring}"
# Only local clients may change the time.
case $endpoint in unix:* | 127.0.0.1:*) set -- "$@" --debug-time ;; esac
if [ -n "$users" ]; then
    config=$(mktemp)
    while IFS=: read -r name password; do
        hash=$(echo "$password" | "$LARDER" password)
        printf '[[user]]\nname = "%s"\npassword = "%s"\n' "$name" "$hash" >> "$config"
    done < "$users"
    set -- "$@" --config "$config"
fi
if [ -n "$daemon" ]; then
    setsid "$LARDER" "$@" > /dev/null 2>&1 < /dev/null &
    [ -n "$pid" ] && echo $! > "$pid"
    exit 0
fi
exec "$LARDER" "$@" > /dev/null
