//! What a session wants of a data source.

use bytes::Bytes;
use ferretto_protos::DataSourceConfig;
use ferretto_protos::data_source_config::BufferExhaustedPolicy;
use ferretto_protos::fields::data_source_config::{
    BUFFER_EXHAUSTED_POLICY, INTERCEPTOR_CONFIG, NAME, TARGET_BUFFER, TRACING_SESSION_ID,
};
use ferretto_protozero::control::{ControlError, Reader};
use prost::{DecodeError, Message};

use crate::policy::ExhaustedPolicy;

/// An instance's `DataSourceConfig`: what concerns every data source, and all the rest as it came.
///
/// ```
/// use ferretto_producer::InstanceConfig;
/// use ferretto_protos::DataSourceConfig;
/// use prost::Message as _;
///
/// let config = DataSourceConfig { name: Some("numbers".into()), legacy_config: Some("odd".into()), ..Default::default() };
/// let config = InstanceConfig::new(config.encode_to_vec().into())?;
/// assert_eq!((config.name(), config.target_buffer()), ("numbers", 0));
/// assert_eq!(config.decode().unwrap().legacy_config(), "odd");
/// # Ok::<(), ferretto_protozero::control::ControlError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceConfig {
    raw: Bytes,
    name: String,
    target_buffer: u32,
    exhausted_policy: i32,
    tracing_session_id: u64,
    wants_interceptor: bool,
}

impl InstanceConfig {
    /// Reads a serialised `DataSourceConfig`.
    ///
    /// # Errors
    ///
    /// If these bytes are none. Configs inside of it, of single data sources, are not looked at.
    pub fn new(raw: Bytes) -> Result<Self, ControlError> {
        let mut config = Self::default();
        let mut field = Reader::new(&raw);
        while field.next()? {
            match field.number {
                NAME => field.text()?.clone_into(&mut config.name),
                TARGET_BUFFER => config.target_buffer = field.integer()? as u32,
                TRACING_SESSION_ID => config.tracing_session_id = field.integer()?,
                BUFFER_EXHAUSTED_POLICY => config.exhausted_policy = field.integer()? as i32,
                INTERCEPTOR_CONFIG => config.wants_interceptor = true,
                _ => {}
            }
        }
        config.raw = raw;
        Ok(config)
    }

    /// The data source that is meant.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the service's buffer for this instance.
    pub fn target_buffer(&self) -> u32 {
        self.target_buffer
    }

    /// What writers are to do when the memory is full; `default` if the config does not say.
    pub fn exhausted_policy(&self, default: ExhaustedPolicy) -> ExhaustedPolicy {
        let wanted = BufferExhaustedPolicy::try_from(self.exhausted_policy).unwrap_or_default();
        ExhaustedPolicy::wanted(wanted, default)
    }

    /// The session, whose data sources have the same number here.
    pub fn tracing_session_id(&self) -> u64 {
        self.tracing_session_id
    }

    /// Whether packets are meant for code within the program (`interceptor_config`), and not for the trace.
    pub fn wants_interceptor(&self) -> bool {
        self.wants_interceptor
    }

    /// The config as it came, with fields that this build does not know.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// All of the config that this build knows.
    ///
    /// # Errors
    ///
    /// If a config of a single data source inside of it is malformed.
    pub fn decode(&self) -> Result<DataSourceConfig, DecodeError> {
        DataSourceConfig::decode(self.raw.clone())
    }
}
