#!/usr/bin/env bash
# A real SLURM cluster on this one machine, on loopback only: two virtual nodes of two cores.
#
#   cluster.sh up FOLDER            install what is missing (Debian packages, as root) and start it;
#                                   prints the environment that its commands need
#   cluster.sh down FOLDER          end its jobs and its daemons
#   cluster.sh node FOLDER lose n1  kill everything on a node and tell the controller that it is down
#   cluster.sh node FOLDER back n1  bring it back
#
# Keys, config, logs and state lie in FOLDER; nothing is written to /etc. Exit status 77: it cannot be started here.
set -euo pipefail

num_nodes=2 cores=2 port=${SLURM_TEST_PORT:-17410}
what=$1 folder=$2
export PATH="$PATH:/usr/sbin:/sbin"
mkdir -p "$folder"/{bin,etc,log,run,state,spool}
folder=$(cd "$folder" && pwd -P)
export SLURM_CONF=$folder/etc/slurm.conf
socket=$folder/run/munge.socket

cannot() { echo "$*" >&2; exit 77; }

# runs PIDFILE NAME: the process in PIDFILE is alive, no zombie, and called NAME
runs() {
    local pid
    pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] || return 1
    case "$(ps -o state=,comm= -p "$pid" 2>/dev/null)" in
        Z*) return 1 ;;
        *" $2"*) return 0 ;;
        *) return 1 ;;
    esac
}

# within SECONDS COMMAND...: waits until COMMAND succeeds
within() {
    local end=$((SECONDS + $1)); shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

install_packages() {
    local missing=()
    command -v munged    >/dev/null || missing+=(munge)
    command -v slurmctld >/dev/null || missing+=(slurmctld)
    command -v slurmd    >/dev/null || missing+=(slurmd)
    command -v sbatch    >/dev/null || missing+=(slurm-client)
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || cannot "${missing[*]} are missing, and this is no Debian"
    [ "$(id -u)" = 0 ] || cannot "${missing[*]} are missing, and installing them needs root"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } \
        >"$folder/log/apt.log" 2>&1 || cannot "apt-get failed: $(tail -n 1 "$folder/log/apt.log")"
}

start_munge() {
    runs "$folder/run/munged.pid" munged && return
    [ -s "$folder/etc/munge.key" ] || (umask 077; head -c 1024 /dev/urandom >"$folder/etc/munge.key")
    munged --force --key-file="$folder/etc/munge.key" --socket="$socket" \
        --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" \
        --seed-file="$folder/state/munged.seed" 2>>"$folder/log/munged.err" || cannot "munged does not start"
    within 10 munge -n --socket="$socket" || cannot "munged does not answer"
}

write_config() {
    local host i
    host=$(hostname -s)
    {
        cat <<CONF
ClusterName=tiryns-test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
# A requeued job waits for cred_expire, 120 s by default; it has to be longer than KillWait
AuthInfo=socket=$socket,cred_expire=10
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# Preemption sends the signal of sbatch --signal
SlurmctldParameters=preempt_send_user_signal
KillWait=5
SlurmdTimeout=20
MessageTimeout=10
CompleteWait=0
InactiveLimit=0
MinJobAge=3600
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
        for i in $(seq "$num_nodes"); do
            echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cores RealMemory=4096"
        done
    } >"$SLURM_CONF"
}

all_up() { [ "$(sinfo -h -N -p main -o '%t' | grep -cE '^(idle|alloc|mix|comp)$')" = "$num_nodes" ]; }

up() {
    local i
    install_packages
    start_munge
    write_config
    runs "$folder/run/slurmctld.pid" slurmctld || slurmctld || cannot "slurmctld does not start"
    within 30 scontrol ping || cannot "slurmctld does not answer"
    for i in $(seq "$num_nodes"); do
        mkdir -p "$folder/spool/n$i"
        runs "$folder/run/slurmd-n$i.pid" slurmd || slurmd -N "n$i" || cannot "slurmd does not start"
    done
    within 60 all_up || cannot "the nodes do not come up"
    echo "SLURM_CONF=$SLURM_CONF"
}

# stop NAME PIDFILE...
stop() {
    local name=$1 file pid
    shift
    for file; do
        pid=$(cat "$file" 2>/dev/null) || continue
        if runs "$file" "$name"; then kill "$pid" 2>/dev/null || true; fi
        for _ in $(seq 100); do runs "$file" "$name" || break; sleep 0.1; done
        if runs "$file" "$name"; then kill -9 "$pid" 2>/dev/null || true; fi
        rm -f "$file"
    done
}

down() {
    local job
    if timeout 10 scontrol ping 2>/dev/null | grep -q ' UP'; then
        for job in $(timeout 10 squeue -h -o %A | sort -u); do timeout 10 scancel --quiet "$job" || true; done
        within 20 bash -c '[ -z "$(squeue -h)" ]' || true
    fi
    stop slurmd "$folder"/run/slurmd-*.pid
    stop slurmctld "$folder/run/slurmctld.pid"
    stop munged "$folder/run/munged.pid"
}

# The node's slurmd and slurmstepds are the processes that hold its log open
daemons() { find /proc/[0-9]*/fd -lname "$folder/log/slurmd-$1.log" 2>/dev/null | cut -d/ -f3 | sort -u; }

# tree PID...: they and all their descendants
tree() {
    local pid
    for pid; do
        echo "$pid"
        # shellcheck disable=SC2046
        tree $(cat /proc/"$pid"/task/*/children 2>/dev/null)
    done
}

node() {
    case $1 in
        lose)
            # shellcheck disable=SC2046
            kill -9 $(tree $(daemons "$2")) 2>/dev/null || true
            rm -f "$folder/run/slurmd-$2.pid"
            scontrol update nodename="$2" state=down reason=lost
            ;;
        back)
            [ -n "$(daemons "$2")" ] || slurmd -N "$2"
            scontrol update nodename="$2" state=resume 2>/dev/null || true
            ;;
    esac
}

case $what in
    up) up ;;
    down) down ;;
    node) node "$3" "$4" ;;
    *) sed -n '2,11p' "$0" >&2; exit 2 ;;
esac
