//! Objects of which a review needs little: what an InternalReleaseImage depends on, and MachineConfigs.

use super::{Change, Fault, Parts, Subject, decode, malformed};
use crate::objects::crd::CustomResourceDefinition;
use crate::objects::machine_config::{MachineConfig, MachineConfigSpec};
use crate::objects::secret::{FilledKeys, Secret};

/// A Secret's contents are in no answer and no log: not even a fault quotes them.
pub fn secret(change: Change<Parts<'_>>) -> Result<Subject<'_>, Fault> {
    fn read(parts: Parts<'_>) -> Result<Secret<'_>, Fault> {
        let data = match parts.data.filter(|_| Secret::supports(&parts.metadata)) {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| Fault {
                message: "the Secret's data cannot be read: it is no map of strings, has a key twice, or too many"
                    .into(),
                malformed_object: true,
            })?,
            None => FilledKeys::default(),
        };
        Ok(Secret { metadata: parts.metadata, data })
    }
    change.try_map(read).map(Subject::Secret)
}

pub fn crd<'a>(change: Change<Parts<'a>>) -> Result<Subject<'a>, Fault> {
    let read = |parts: Parts<'a>| Ok(CustomResourceDefinition { metadata: parts.metadata });
    change.try_map(read).map(Subject::CustomResourceDefinition)
}

/// Of the spec, up to megabytes of files, one field is read; of a rendered one nothing.
pub fn machine_config(change: Change<Parts<'_>>) -> Result<Subject<'_>, Fault> {
    fn read(parts: Parts<'_>) -> Result<MachineConfig<'_>, serde_json::Error> {
        let rendered = MachineConfig::is_rendered(&parts.metadata);
        let spec = if rendered { MachineConfigSpec::default() } else { decode(parts.spec)? };
        Ok(MachineConfig { metadata: parts.metadata, spec })
    }
    change.try_map(read).map(Subject::MachineConfig).map_err(|error| malformed("MachineConfig", &error))
}
