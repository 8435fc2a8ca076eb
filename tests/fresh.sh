#!/bin/sh
# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# sh tests/fresh.sh             tries this tree on fresh machines: bare Debian systems, made by debootstrap
# sh tests/fresh.sh CELL ...    only these; --list: their names
#
# Every cell is a copy of an untouched system, which holds nothing but what its release calls required: a package that a
# script forgets to ask for is missing there, whatever this machine has. Only what ccache keeps is shared: the same bytes,
# compiled by the same compiler, are not compiled again in each. The table says of each cell: passed, FAILED, or
# not tried, and why. Untouched systems are kept in $TRIREME_ROOTS, by default /var/tmp/trireme-roots (220 MB each).
# Needs root, debootstrap (installed if it is missing) and a Debian mirror.
# The last line is 'N passed, N failed, N skipped'; the exit code is 0 if none failed, 77 if none could be tried.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
roots=${TRIREME_ROOTS:-/var/tmp/trireme-roots}
logs=$root/build/fresh

# CELL|RELEASE|WHAT IS MADE READY BEFORE|COMMANDS, which `sh -e` runs in a copy of this tree
first='sh examples/run.sh lenet --epochs 1'
both="$first; sh tests/run.sh --quick"
two='-Dtests=enabled -Dtest_folders=core,group -Dexamples=disabled'
two="apt-get install -qq --yes doctest-dev; meson setup build/two $two; meson test -C build/two --suite core --suite group"
refused='code=0; sh examples/run.sh >said 2>&1 || code=$?; cat said; test $code -eq 3; grep "have an administrator run" said'
alone='for name in mlp regression use_weights callbacks; do sh examples/run.sh $name; timeout 60 sh examples/run.sh $name; done'
alone="$alone; "'code=0; sh examples/run.sh cifar >said 2>&1 || code=$?; cat said; test $code -eq 2; grep -e --data said'
consumers='for kind in subproject wrap cmake pkg-config; do python3 tests/consumers/run.py $kind . g++; done'
cells="
first-command|bookworm||$first
bookworm|bookworm||$both
trixie|trixie||$both
newest-g++|forky|g++|$both
nvcc|bookworm|cuda|$first
mpi-later|bookworm||$first; sh examples/run.sh lenet --transport mpi --devices 1 --epochs 1
newest-meson|bookworm|meson|$first; $two
newest-clang++|trixie|clang|sh tests/run.sh --quick
no-root|bookworm|user|$refused
alone|bookworm||$alone
consumers|bookworm|tools|$consumers
consumers-newest-meson|bookworm|tools meson|$consumers
bench|bookworm||sh bench/run.sh lenet --quick
everything|bookworm||sh tests/run.sh
"

list() {
    printf '%s' "$cells" | sed -n 's/|.*//p' | grep .
}
case ${1-} in
--list) list; exit 0 ;;
-*) echo "usage: sh tests/fresh.sh [CELL ...], or --list" >&2; exit 2 ;;
esac
chosen=${*:-$(list)}
for cell in $chosen; do
    list | grep -qx -e "$cell" || { printf "There is no cell '%s'. The cells are:\n%s\n" "$cell" "$(list)" >&2; exit 2; }
done

# Why nothing can be tried, if so.
obstacle=''
if [ "$(id -u)" -ne 0 ]; then
    obstacle='needs root, to make bare systems and to enter them'
elif ! git -C "$root" rev-parse >/dev/null 2>&1; then
    obstacle='needs a git checkout, whose files it copies'
else
    . "$root/tests/setup.sh"
    cxx='' # none is needed here
    want_command debootstrap debootstrap "makes bare systems"
    [ -z "$packages" ] || install_with_apt
    command -v debootstrap >/dev/null 2>&1 || obstacle='needs debootstrap, which cannot be installed here'
fi
mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | head -n 1)
: "${mirror:=http://deb.debian.org/debian}"
can_mount=yes
apart='unshare --mount --propagation private --pid --fork --kill-child' # nothing of a cell outlives it
compiled=$(ccache --get-config cache_dir 2>/dev/null) && [ -d "$compiled" ] || compiled=''
$apart true 2>/dev/null || can_mount=''

# Makes the untouched system of a release, once. Sets `why` if that cannot be.
make_untouched() { # RELEASE
    [ ! -e "$roots/$1/.complete" ] || return 0
    script=/usr/share/debootstrap/scripts/$1
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # a release that is newer than this debootstrap
    mkdir -p "$roots"
    rm -rf "${roots:?}/$1"
    debootstrap --variant=minbase --include=ca-certificates "$1" "$roots/$1" "$mirror" "$script" >"$logs/debootstrap-$1.log" 2>&1 || {
        why="debootstrap makes no $1 from $mirror, see $logs/debootstrap-$1.log"
        return 1
    }
    touch "$roots/$1/.complete"
}

# A system of its own reaches the mirror and PyPI as this machine does.
lend_network() {
    cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
    for file in "$HOME/.config/pip/pip.conf" /etc/pip.conf; do
        [ ! -e "$file" ] || cp -L "$file" "$system/etc/pip.conf"
    done
    for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        ! grep -qs 'Acquire::' "$file" || cp -L "$file" "$system/etc/apt/apt.conf.d/"
    done
}

# Runs COMMANDS in the system, in the copy of the tree. HOME, PATH and what /setting says is all that reaches them.
enter() { # COMMANDS
    # shellcheck disable=SC2016 # the inner shells expand these
    set -- env -i HOME=/root PATH=/opt/meson/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        chroot "$system" sh -ec 'cd /trireme; [ ! -e /setting ] || . /setting; eval "$1"' sh "$1"
    if [ -n "$can_mount" ]; then # mounts vanish with the namespace
        # shellcheck disable=SC2086
        system=$system cuda=$cuda compiled=$compiled $apart sh -ec '
            mount -t proc proc "$system/proc"
            mount --rbind /dev "$system/dev"
            mount -t tmpfs tmpfs "$system/tmp"
            [ -z "$compiled" ] || { mkdir -p "$system/root/.cache/ccache" && mount --bind "$compiled" "$system/root/.cache/ccache"; }
            [ -z "$cuda" ] || { mkdir -p "$system/usr/local/cuda" && mount --rbind "$cuda" "$system/usr/local/cuda"; }
            exec "$@"' sh "$@" &
        inside=$!
        wait "$inside"
    else
        for device in 'null 3' 'zero 5' 'random 8' 'urandom 9'; do
            [ -e "$system/dev/${device% *}" ] || mknod -m 666 "$system/dev/${device% *}" c 1 "${device#* }"
        done
        [ -z "$cuda" ] || [ -e "$system/usr/local/cuda" ] || cp -aL "$cuda" "$system/usr/local/cuda"
        "$@"
    fi
}

# Makes ready one thing that a cell asks for. Sets `why` if this machine cannot.
make_ready() { # cuda, meson, g++, clang, user or tools
    install='apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends'
    # shellcheck disable=SC2016 # the system's shell expands these
    newest='apt-get update -qq; newest=$(apt-cache pkgnames | sed -n "s/^$package-\([0-9]*\)\$/\1/p" | sort -n | tail -n 1);'
    # shellcheck disable=SC2016
    case $1 in
    cuda) # without a GPU
        cuda=$(readlink -f /usr/local/cuda)
        [ -x "$cuda/bin/nvcc" ] || { why='this machine has no nvcc in /usr/local/cuda' && return 1; } ;;
    meson) enter "$install python3-venv && python3 -m venv /opt/meson && /opt/meson/bin/pip install --quiet meson" ;;
    g++) enter "package=g++; $newest $install g++-\$newest; echo export CXX=g++-\$newest >/setting" ;;
    clang) enter "package=clang; $newest $install clang-\$newest g++; echo export CXX=clang++-\$newest >/setting" ;;
    user) enter 'useradd --create-home someone; chown -R someone /trireme
        echo "exec su someone -c \"set -e; \$1\"" >/setting' ;;
    tools) enter "$install g++ meson ninja-build cmake make pkg-config zlib1g-dev" ;;
    esac
}

# 0: passed; 77: not tried, and `why` says for what reason; else failed.
try() { # RELEASE THINGS COMMANDS
    make_untouched "$1" || return 77
    cuda=''
    cp -a --reflink=auto "$roots/$1" "$system"
    lend_network
    mkdir "$system/trireme" # as a clone would be, of what is about to be committed
    (cd "$root" && git ls-files --cached --others --exclude-standard | while read -r file; do
        [ ! -e "$file" ] || echo "$file"
    done | tar --files-from=- -cf -) | tar -C "$system/trireme" --no-same-owner -xf -
    for thing in $2; do
        make_ready "$thing" || { : "${why:=$thing cannot be made ready there}"; return 77; }
    done
    code=0
    enter "$3" || code=$?
    [ "$code" -ne 77 ] || code=1 # its commands cannot be what is not tried
    return "$code"
}

system='' inside=''
trap 'rm -rf "${system:-$logs/none}"' EXIT
trap 'kill ${inside:+"$inside"}; exit 1' INT TERM HUP
passed=0 failed=0 skipped=0
mkdir -p "$logs"
printf '%-24s %-10s %8s  %s\n' cell release seconds result
for cell in $chosen; do
    line=$(printf '%s' "$cells" | grep "^$cell|")
    rest=${line#*|} release='' things=''
    release=${rest%%|*} rest=${rest#*|}
    things=${rest%%|*} commands=${rest#*|}
    log=$logs/$cell.log why=$obstacle status=77 begin=$(date +%s)
    if [ -z "$why" ]; then
        system=$(mktemp -d "$roots.cell.XXXXXX")
        rmdir "$system" # `cp` makes it
        status=0
        try "$release" "$things" "$commands" >"$log" 2>&1 || status=$?
        rm -rf "${system:?}"
        system=''
    fi
    case $status in
    0) result=passed passed=$((passed + 1)) ;;
    77) result="not tried: $why" skipped=$((skipped + 1)) ;;
    *) result="FAILED (exit code $status), see $log" failed=$((failed + 1)) ;;
    esac
    printf '%-24s %-10s %8s  %s\n' "$cell" "$release" $(($(date +%s) - begin)) "$result"
    case $result in 'not tried'*) echo "left out: $cell: $why" ;; esac
    case $result in FAILED*) tail -n 30 "$log" | sed 's/^/    /' ;; esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -ne 0 ] || exit 77
