//! What Chrome's processes and threads are by their types (upstream: chrome_string_lookup.cc, chrome_enums.proto).

use ferretto_trace_tables::{MachineId, Upid, Utid};

use crate::args::ArgValue;
use crate::model::Model;
use crate::processes::{ProcessName, ThreadName};
use crate::wire;

/// Kinds of processes. Without a name of its own a kind has that of the enum.
const PROCESSES: [(u64, &str); 42] = [
    (1, "Browser"),
    (2, "Renderer"),
    (3, "Utility"),
    (4, "SandboxHelper"),
    (5, "PROCESS_SANDBOX_HELPER"),
    (6, "Gpu"),
    (7, "PpapiPlugin"),
    (8, "PpapiBroker"),
    (9, "Service: network.mojom.NetworkService"),
    (10, "Service: tracing.mojom.TracingService"),
    (11, "Service: storage.mojom.StorageService"),
    (12, "Service: audio.mojom.AudioService"),
    (13, "Service: data_decoder.mojom.DataDecoderService"),
    (14, "Service: chrome.mojom.UtilWin"),
    (15, "Service: proxy_resolver.mojom.ProxyResolverFactory"),
    (16, "Service: media.mojom.CdmServiceBroker"),
    (17, "Service: video_capture.mojom.VideoCaptureService"),
    (18, "Service: unzip.mojom.Unzipper"),
    (19, "Service: mirroring.mojom.MirroringService"),
    (20, "Service: patch.mojom.FilePatcher"),
    (21, "Service: chromeos.tts.mojom.TtsService"),
    (22, "Service: printing.mojom.PrintingService"),
    (23, "Service: quarantine.mojom.Quarantine"),
    (24, "Service: chromeos.local_search_service.mojom.LocalSearchService"),
    (25, "Service: chromeos.assistant.mojom.AssistantAudioDecoderFactory"),
    (26, "Service: chrome.mojom.FileUtilService"),
    (27, "Service: printing.mojom.PrintCompositor"),
    (28, "Service: paint_preview.mojom.PaintPreviewCompositorCollection"),
    (29, "Service: media.mojom.SpeechRecognitionService"),
    (30, "Service: device.mojom.XRDeviceService"),
    (31, "Service: chrome.mojom.UtilReadIcon"),
    (32, "Service: language_detection.mojom.LanguageDetectionService"),
    (33, "Service: sharing.mojom.Sharing"),
    (34, "Service: chrome.mojom.MediaParserFactory"),
    (35, "Service: qrcode_generator.mojom.QRCodeService"),
    (36, "Service: chrome.mojom.ProfileImport"),
    (37, "Service: chromeos.ime.mojom.ImeService"),
    (38, "Service: recording.mojom.RecordingService"),
    (39, "Service: shape_detection.mojom.ShapeDetectionService"),
    (40, "Extension Renderer"),
    (41, "Service: media.mojom.MediaFoundationServiceBroker"),
    (42, "PROCESS_RENDERER_TOP_WEBUI"),
];
/// Kinds of threads; those that end with `&` have a number behind it in Chrome.
const THREADS: [(u64, &str); 45] = [
    (1, "CrProcessMain"),
    (2, "ChromeIOThread"),
    (3, "ThreadPoolBackgroundWorker&"),
    (4, "ThreadPoolForegroundWorker&"),
    (5, "ThreadPoolSingleThreadForegroundBlocking&"),
    (6, "ThreadPoolSingleThreadBackgroundBlocking&"),
    (7, "ThreadPoolService"),
    (8, "Compositor"),
    (9, "VizCompositorThread"),
    (10, "CompositorTileWorker&"),
    (11, "ServiceWorkerThread&"),
    (12, "NetworkService"),
    (13, "Chrome_ChildIOThread"),
    (14, "Chrome_IOThread"),
    (15, "CrBrowserMain"),
    (16, "CrRendererMain"),
    (17, "CrUtilityMain"),
    (18, "CrGpuMain"),
    (19, "CacheThread_BlockFile"),
    (20, "Media"),
    (21, "AudioOutputDevice"),
    (22, "AudioInputDevice"),
    (23, "GpuMemoryThread"),
    (24, "GpuVSyncThread"),
    (25, "DXVAVideoDecoderThread"),
    (26, "BrowserWatchdog"),
    (27, "WebRTC_Network"),
    (28, "Window owner thread"),
    (29, "WebRTC_Signaling"),
    (30, "WebRTC_Worker"),
    (31, "CrPPAPIMain"),
    (32, "GpuWatchdog"),
    (33, "swapper"),
    (34, "Gamepad polling thread"),
    (35, "WebCrypto"),
    (36, "Database thread"),
    (37, "Proxy Resolver"),
    (38, "Chrome_DevToolsADBThread"),
    (39, "NetworkConfigWatcher"),
    (40, "wasapi_render_thread"),
    (41, "LoaderLockSampler"),
    (42, "VSyncThread"),
    (50, "MemoryInfra"),
    (51, "StackSamplingProfiler"),
    (52, "CompositorGpuThread"),
];

/// Processes that show pages.
const RENDERERS: [u64; 2] = [2, 40];

/// `ChromeProcessDescriptor` and `ChromeThreadDescriptor`.
mod field {
    pub(super) const PROCESS_TYPE: u32 = 1;
    pub(super) const HOST_APP_PACKAGE_NAME: u32 = 4;
    pub(super) const CRASH_TRACE_ID: u32 = 5;
    pub(super) const THREAD_TYPE: u32 = 1;
}

impl Model {
    /// What kind of process of Chrome it is.
    pub(super) fn apply_chrome_process(&mut self, machine: MachineId, upid: Upid, message: &[u8]) {
        let kind = wire::number(message, field::PROCESS_TYPE).unwrap_or(0);
        let name = name_of(&PROCESSES, kind).map(|name| self.tables.strings.intern(name));
        let host = wire::bytes(message, field::HOST_APP_PACKAGE_NAME);
        let host = host.map(|name| self.tables.strings.intern_bytes(name));
        self.name_chrome_process(machine, upid, kind);
        let (tables, processes) = self.processes(machine);
        processes.add_process_arg(tables, upid, "chrome.process_type", ArgValue::of_text(name));
        if let Some(host) = host {
            let host = ArgValue::Text(host);
            processes.add_process_arg(tables, upid, "chrome.host_app_package_name", host);
        }
        if let Some(id) = wire::number(message, field::CRASH_TRACE_ID) {
            processes.add_process_arg(tables, upid, "chrome.crash_trace_id", ArgValue::Uint(id));
        }
    }

    /// A process is called by its kind, if nothing better is known.
    pub(super) fn name_chrome_process(&mut self, machine: MachineId, upid: Upid, kind: u64) {
        let Some(name) = name_of(&PROCESSES, kind) else { return };
        let name = self.tables.strings.intern(name);
        let source = match RENDERERS.contains(&kind) {
            true => ProcessName::ChromeRendererLabel,
            false => ProcessName::ChromeLabel,
        };
        let (tables, processes) = self.processes(machine);
        processes.name_process(tables, upid, name, source);
    }

    /// What kind of thread of Chrome it is.
    pub(super) fn apply_chrome_thread(&mut self, machine: MachineId, utid: Utid, message: &[u8]) {
        let kind = wire::number(message, field::THREAD_TYPE).unwrap_or(0);
        let Some(name) = name_of(&THREADS, kind) else { return };
        let name = self.tables.strings.intern(name);
        let (tables, processes) = self.processes(machine);
        processes.name_thread(tables, utid, name, ThreadName::ChromeType);
    }
}

fn name_of(names: &[(u64, &'static str)], kind: u64) -> Option<&'static str> {
    names.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}
