//! The command line: commands, options, and how their values are parsed.

#[cfg(all(target_os = "linux", feature = "serve"))]
mod array;
#[cfg(any(feature = "lab", feature = "serve"))]
mod array_engine;
#[cfg(all(target_os = "linux", feature = "bench"))]
mod bench;
#[cfg(all(target_os = "linux", feature = "block"))]
mod block;
#[cfg(all(target_os = "linux", feature = "serve"))]
mod cache;
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) mod cache_keys;
#[cfg(target_os = "linux")]
mod device;
#[cfg(any(feature = "lab", feature = "vssd"))]
mod isolation;
#[cfg(feature = "lab")]
mod lab;
#[cfg(all(target_os = "linux", feature = "block"))]
mod listening;
#[cfg(all(target_os = "linux", feature = "block"))]
mod nearest;
mod numbers;
#[cfg(feature = "lab")]
mod plan;
#[cfg(feature = "lab")]
mod replay;
#[cfg(all(target_os = "linux", feature = "serve"))]
mod serve;
mod shell;
#[cfg(all(target_os = "linux", feature = "block"))]
pub(crate) mod tls;
#[cfg(feature = "vssd")]
mod vssd;
#[cfg(any(feature = "bench", feature = "lab"))]
mod workload;

use clap::{Parser, Subcommand};

#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) use array::{ArrayArgs, ArrayCommand};
#[cfg(any(feature = "lab", feature = "serve"))]
pub(crate) use array_engine::ArrayEngineArgs;
#[cfg(all(target_os = "linux", feature = "bench"))]
pub(crate) use bench::BenchArgs;
#[cfg(all(target_os = "linux", feature = "block"))]
pub(crate) use block::{
    AskArgs, AttachArgs, BlockCommand, CacheCreateArgs, CacheStatsArgs, CacheStatusArgs,
    CalibrateArgs, ChangedCoreArg, CleaningArg, CoreArg, CoreOfArgs, CoresArgs, CutOffArg,
    DeviceFormatArgs, ExportArgs, IoClassArgs, LayoutArg, ModeArgs, PolicyArgs, PromotionArg,
    ReadAheadArg, RecoverArgs, RoutingArg, StartArgs, StopArgs, StoppedArgs, TargetArg, UblkArg,
    UblkListArgs, WhichArgs,
};
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) use cache::CacheArgs;
#[cfg(target_os = "linux")]
pub(crate) use device::{
    DeviceCommand, DeviceStatsArgs, EventsArgs, InfoArgs, ListArgs, NamedRange, OutputArgs,
    PrepareArgs, TrimArgs,
};
#[cfg(any(feature = "lab", feature = "vssd"))]
pub(crate) use isolation::KindArg;
#[cfg(feature = "lab")]
pub(crate) use lab::{LabCommand, LabReportArgs, LabRunArgs};
#[cfg(all(target_os = "linux", feature = "block"))]
pub(crate) use listening::{ListenArg, hash, listen, log_level, sockets};
#[cfg(all(target_os = "linux", feature = "block"))]
pub(crate) use nearest::nearest;
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) use numbers::check_years;
use numbers::positive_size;
pub(crate) use numbers::size;
#[cfg(feature = "lab")]
pub(crate) use plan::PlanArgs;
#[cfg(feature = "lab")]
pub(crate) use replay::{DeviceArg, IsolationArg, PlacementArg, ReplayArgs, VssdArg};
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) use serve::{AdviseArgs, CheckArgs, PasswordArgs, ServeArgs};
pub(crate) use shell::{CompletionsArgs, ManArgs};
#[cfg(all(target_os = "linux", feature = "vssd"))]
pub(crate) use vssd::MountArgs;
#[cfg(feature = "vssd")]
pub(crate) use vssd::{
    CreateArgs, DeleteArgs, ExerciseArgs, FormatArgs as VssdFormatArgs, GrowArgs, ImageArgs,
    LevellingArgs, ListArgs as VssdListArgs, LookArgs, OutputArgs as VssdOutputArgs, SwapArgs,
    VssdCommand,
};
#[cfg(any(feature = "bench", feature = "lab"))]
pub(crate) use workload::FormatArgs;
#[cfg(feature = "lab")]
pub(crate) use workload::{StatsArgs, WorkloadCommand};

/// A flash cache that shelves data by lifetime, and the tools to see what that saves.
#[derive(Debug, Parser)]
#[command(name = "larder", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(all(target_os = "linux", feature = "serve"))]
    Serve(Box<ServeArgs>),
    #[cfg(all(target_os = "linux", feature = "serve"))]
    Check(CheckArgs),
    #[cfg(all(target_os = "linux", feature = "serve"))]
    Advise(AdviseArgs),
    #[cfg(all(target_os = "linux", feature = "serve"))]
    Password(PasswordArgs),
    #[cfg(all(target_os = "linux", feature = "bench"))]
    Bench(Box<BenchArgs>),
    #[cfg(feature = "lab")]
    Replay(Box<ReplayArgs>),
    #[cfg(feature = "lab")]
    Plan(Box<PlanArgs>),
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Workload(WorkloadCommand),
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(LabCommand),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Device(DeviceCommand),
    #[cfg(all(target_os = "linux", feature = "block"))]
    #[command(subcommand)]
    Block(BlockCommand),
    #[cfg(feature = "vssd")]
    #[command(subcommand)]
    Vssd(VssdCommand),
    #[cfg(all(target_os = "linux", feature = "serve"))]
    #[command(subcommand)]
    Array(ArrayCommand),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
