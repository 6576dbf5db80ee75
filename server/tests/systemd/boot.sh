# Run as process 1 of namespaces of its own (mounts, processes, network, cgroups): lays out a host in which the unit
# finds what it names, and becomes systemd. $1 is the test's directory, $2 the unit's.
set -e
test=$1 units=$2
mount --make-rprivate /
umount -R /sys/fs/cgroup 2>/dev/null || :
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/host
mount --bind "$test" /mnt/host
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /run/up /run/systemd/system /run/host
mount --move /mnt/host /run/host
umount /mnt
# Whatever is written lands in memory and goes with the test.
for dir in /etc /usr/bin /var/lib; do
    name=$(echo "$dir" | tr / _)
    mkdir "/run/up/$name" "/run/up/work$name"
    mount -t overlay overlay -o "lowerdir=$dir,upperdir=/run/up/$name,workdir=/run/up/work$name" "$dir"
done
# What this machine's own oneseal keeps is not this host's.
rm -rf /etc/oneseal /var/lib/oneseal /var/lib/private/oneseal
cp /run/host/oneseal /usr/bin/oneseal && chmod 755 /usr/bin/oneseal
mkdir -p -m 755 /etc/oneseal
cp /run/host/oneseal.toml /etc/oneseal/oneseal.toml && chmod 644 /etc/oneseal/oneseal.toml
cp /run/host/signing-key /etc/oneseal/signing-key && chmod 600 /etc/oneseal/signing-key
cp "$units/oneseal.service" /run/systemd/system/
cp -r /run/host/oneseal.service.d /run/systemd/system/
for target in sysinit basic shutdown network-online; do
    printf '[Unit]\nDefaultDependencies=no\n' >"/run/systemd/system/$target.target"
done
cat >/run/systemd/system/test.service <<X
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -e /run/host/test.sh
StandardOutput=append:/run/host/said
StandardError=append:/run/host/said
X
# systemd hands credentials from one mount namespace to another.
mount --make-rshared /
for systemd in /lib/systemd/systemd /usr/lib/systemd/systemd; do
    [ ! -x "$systemd" ] || exec env -i PATH="$PATH:/usr/sbin:/sbin" container=other SYSTEMD_UNIT_PATH=/run/systemd/system \
        "$systemd" --system --unit=test.service --show-status=no --log-target=null
done
