//! A simulated drive as text: `4G,op=7,ru=16M`.

use std::fmt;
use std::str::FromStr;

use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, PAGE_BYTES};
use larder_ssd::nand::{DieArray, NandGeometry};

/// A drive whose unit is not named has about this many units.
const UNITS: f64 = 340.0;
/// An erase block of an open-channel drive, if no unit is named, in bytes.
const BLOCK_BYTES: u64 = 128 << 10;
/// Bytes that a die of an open-channel drive programs at once.
const STRIPE_BYTES: u64 = 16 << 10;
/// Fewer blocks of a die leave no room for levelling.
const BLOCKS_MIN: u64 = 16;
/// Over-provisioning that is not named, in percent of the capacity.
const OP_PERCENT: f64 = 17.0;

/// A simulated drive that a user describes: its capacity, then settings, with commas between them. All of its media are
/// in memory.
///
/// | setting | meaning | default |
/// |---|---|---|
/// | `op=PERCENT` | media beyond the capacity, in percent of it (over-provisioning) | 17 |
/// | `ru=SIZE` | a reclaim unit, which the drive erases as a whole | a 340th of the media |
/// | `handles=N` | reclaim unit handles, with the default | 8 |
/// | `groups=N` | reclaim groups | 1 |
/// | `isolation=initially` or `persistently` | whether moved data stay with data of their handle | `initially` |
/// | `fdp=on` or `off` | whether the drive places at all | `on` |
/// | `channels=N`, `dies=N` | channels, and dies of each, for tenants on some of them ([`ModelSpec::nand`]) | 8, 2 |
/// | `seed=N` | seed of its random choices | 0 |
///
/// Sizes take K, M, G, T, as powers of 1024.
///
/// # Examples
/// ```
/// use larder_device::ModelSpec;
///
/// let drive: ModelSpec = "64M,op=7,ru=256K".parse()?;
/// assert_eq!(drive.config()?.geometry.logical_bytes(), 64 << 20);
/// assert!("64M,op=x".parse::<ModelSpec>().unwrap_err().contains("op=x"));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    capacity_bytes: u64,
    op_percent: f64,
    unit_bytes: Option<u64>,
    handles: u16,
    groups: u16,
    isolation: GcDestination,
    fdp: bool,
    channels: u32,
    dies: u32,
    seed: u64,
}

impl ModelSpec {
    /// The seed of its random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The media as an open-channel drive, whose channels and dies are given to tenants: as many bytes as those of
    /// [`ModelSpec::config`], in erase blocks of `ru` bytes, or an eighth of a MiB.
    ///
    /// # Errors
    /// A text that says why no such drive can be.
    pub fn nand(&self) -> Result<NandGeometry, String> {
        let media = self.config()?.geometry.physical_pages() * PAGE_BYTES;
        let block_bytes = self.unit_bytes.unwrap_or(BLOCK_BYTES);
        let dies = u64::from(self.channels) * u64::from(self.dies);
        let blocks = media / dies / block_bytes;
        if !block_bytes.is_multiple_of(STRIPE_BYTES) || blocks < BLOCKS_MIN {
            return Err(format!(
                "model:{self}: {dies} dies of {blocks} blocks of {block_bytes} bytes: must be at least {BLOCKS_MIN} \
                 blocks, of a multiple of {STRIPE_BYTES}; set a larger capacity, fewer channels or dies, or another ru"
            ));
        }
        let narrow = |number: u64| u32::try_from(number).map_err(|_| "too many blocks".to_owned());
        Ok(NandGeometry {
            array: DieArray { channels: self.channels, dies_per_channel: self.dies },
            planes: 1,
            bits: 1,
            blocks_per_die: narrow(blocks)?,
            pages_per_block: narrow(block_bytes / STRIPE_BYTES)?,
            page_bytes: narrow(STRIPE_BYTES)?,
            mapping_bytes: narrow(PAGE_BYTES)?,
        })
    }

    /// The configuration of the drive.
    ///
    /// # Errors
    /// A text that says why no such drive can work.
    pub fn config(&self) -> Result<ManagedConfig, String> {
        let unit = self.unit_bytes.unwrap_or_else(|| self.automatic_unit_bytes());
        let geometry = Geometry::with_overprovisioning(self.capacity_bytes, unit, self.op_percent);
        let geometry = geometry.map_err(|error| error.to_string())?;
        Ok(ManagedConfig {
            handles: self.handles,
            groups: self.groups,
            gc_destination: self.isolation,
            fdp: self.fdp,
            seed: self.seed,
            ..ManagedConfig::new(geometry)
        })
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn automatic_unit_bytes(&self) -> u64 {
        // Positive and far below 2^64: the size of a drive, divided by 340.
        let wanted = self.capacity_bytes as f64 * (1.0 + self.op_percent / 100.0) / UNITS;
        ((wanted / PAGE_BYTES as f64).round() as u64).max(1) * PAGE_BYTES
    }
}

impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let capacity = parts.next().unwrap_or_default();
        let capacity_bytes = size(capacity).filter(|bytes| *bytes > 0).ok_or_else(|| {
            format!(
                "model:{text}: {capacity:?} is no capacity; begin with one, such as model:4G,op=7"
            )
        })?;
        let mut spec = Self {
            capacity_bytes: capacity_bytes / PAGE_BYTES * PAGE_BYTES,
            op_percent: OP_PERCENT,
            unit_bytes: None,
            handles: 8,
            groups: 1,
            isolation: GcDestination::Shared,
            fdp: true,
            channels: 8,
            dies: 2,
            seed: 0,
        };
        for part in parts {
            let known = part.split_once('=').and_then(|(name, value)| spec.set(name, value));
            known.ok_or_else(|| {
                format!(
                    "model:{text}: {part:?} is no setting of a simulated drive; use op=PERCENT, ru=SIZE, handles=N, \
                     groups=N, isolation=initially or persistently, fdp=on or off, channels=N, dies=N, seed=N"
                )
            })?;
        }
        spec.config()?;
        Ok(spec)
    }
}

impl ModelSpec {
    /// Takes one setting; `None` if there is no such setting, or its value means nothing.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "op" => self.op_percent = value.parse().ok()?,
            "ru" => self.unit_bytes = Some(size(value)?),
            "handles" => self.handles = value.parse().ok().filter(|count| *count > 0)?,
            "groups" => self.groups = value.parse().ok().filter(|count| *count > 0)?,
            "channels" => self.channels = value.parse().ok().filter(|count| *count > 0)?,
            "dies" => self.dies = value.parse().ok().filter(|count| *count > 0)?,
            "seed" => self.seed = value.parse().ok()?,
            "isolation" => {
                self.isolation = match value {
                    "initially" => GcDestination::Shared,
                    "persistently" => GcDestination::PerHandle,
                    _ => return None,
                }
            }
            "fdp" => {
                self.fdp = match value {
                    "on" => true,
                    "off" => false,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

impl fmt::Display for ModelSpec {
    /// A text that is read back as the same drive, without settings that have their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.capacity_bytes)?;
        write!(f, ",op={}", self.op_percent)?;
        if let Some(bytes) = self.unit_bytes {
            write!(f, ",ru={bytes}")?;
        }
        write!(f, ",handles={},groups={}", self.handles, self.groups)?;
        if self.isolation == GcDestination::PerHandle {
            f.write_str(",isolation=persistently")?;
        }
        if !self.fdp {
            f.write_str(",fdp=off")?;
        }
        if (self.channels, self.dies) != (8, 2) {
            write!(f, ",channels={},dies={}", self.channels, self.dies)?;
        }
        if self.seed != 0 {
            write!(f, ",seed={}", self.seed)?;
        }
        Ok(())
    }
}

/// Bytes, or a number of K, M, G or T.
fn size(text: &str) -> Option<u64> {
    parse_size::Config::new().with_binary().parse_size(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_read_and_written() {
        for text in [
            "67108864,op=17,handles=8,groups=1",
            "67108864,op=7,ru=262144,handles=4,groups=2,isolation=persistently,fdp=off,channels=4,dies=1,seed=3",
        ] {
            assert_eq!(text.parse::<ModelSpec>().unwrap().to_string(), text);
        }
        let config =
            "1G,op=7,isolation=persistently".parse::<ModelSpec>().unwrap().config().unwrap();
        assert_eq!(config.gc_destination, GcDestination::PerHandle);
        let units = config.geometry.units;
        assert!((330..350).contains(&units), "{units} units");
    }

    #[test]
    fn the_same_media_are_an_open_channel_drive() {
        let spec: ModelSpec = "64M,op=25,channels=4,dies=2".parse().unwrap();
        let nand = spec.nand().unwrap();
        assert_eq!((nand.array.channels, nand.array.dies()), (4, 8));
        assert_eq!(nand.blocks_per_die, 80, "80 MiB of media in blocks of 128 KiB");
        let refused = "1M,ru=16K".parse::<ModelSpec>().unwrap().nand().unwrap_err();
        assert!(refused.contains("16 dies of 4 blocks"), "{refused}");
    }

    #[test]
    fn errors_name_the_setting_and_the_remedy() {
        for (text, says) in [
            ("", "no capacity"),
            ("0", "no capacity"),
            ("4X", "\"4X\" is no capacity"),
            ("64M,op", "\"op\" is no setting"),
            ("64M,op=x", "\"op=x\" is no setting"),
            ("64M,handles=0", "\"handles=0\""),
            ("64M,isolation=no", "isolation=initially or persistently"),
            ("64M,op=-4", "over-provisioning of -4 %"),
            ("64M,ru=5000", "reclaim unit of 5000 bytes"),
        ] {
            let refused = text.parse::<ModelSpec>().unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
