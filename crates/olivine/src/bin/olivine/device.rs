//! The device that a command names.

use olivine::{Device, DeviceKind, Error, Result, backend, set_default_device};

/// A device as users name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    Cpu,
    Gpu(u16),
}

/// `cpu`, `gpu`, `gpu:N`.
pub fn parse(text: &str) -> std::result::Result<Named, String> {
    let refuse = || format!("'{text}' is not a device: there are cpu, gpu and gpu:N");
    match text.trim().split_once(':') {
        None if text.trim() == "cpu" => Ok(Named::Cpu),
        None if text.trim() == "gpu" => Ok(Named::Gpu(0)),
        Some(("gpu", n)) => n.parse().map(Named::Gpu).map_err(|_| refuse()),
        Some(_) | None => Err(refuse()),
    }
}

/// Makes a device the default one; the GPU where there is one when none is named.
pub fn choose(named: Option<Named>) -> Result<()> {
    match named {
        Some(Named::Cpu) => set_default_device(Device::CPU),
        Some(Named::Gpu(index)) => {
            olivine::gpu()?;
            let device = Device::new(DeviceKind::Cuda, index);
            if usize::from(index) >= backend::get(device)?.device_count() {
                return Err(Error::NoBackend(device));
            }
            set_default_device(device)
        }
        None => olivine::gpu().map_or(Ok(()), set_default_device),
    }
}

#[cfg(test)]
mod tests {
    use super::{Named, parse};

    #[test]
    fn names_of_devices() {
        assert_eq!(parse("cpu"), Ok(Named::Cpu));
        assert_eq!(parse("gpu"), Ok(Named::Gpu(0)));
        assert_eq!(parse("gpu:3"), Ok(Named::Gpu(3)));
        for bad in ["", "cuda", "gpu:", "gpu:-1", "cpu:0", "gpu:99999"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
