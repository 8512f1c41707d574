//! A headless Chromium, spoken to by the DevTools protocol over a pipe: JSON, a NUL after each
//! message.

use std::io::{BufRead, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser that shows one page. Starting a browser takes seconds: one that a test is done with
/// serves the next test.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    /// The storage of the page: the next test's page finds nothing of the last one's.
    context: Value,
    calls: u64,
    /// What the browser said without being asked.
    events: Vec<Value>,
    _profile: TempDir,
}

/// The number of tests that have a browser, and the browsers that none of them has.
static IDLE: Mutex<(usize, Vec<Browser>)> = Mutex::new((0, Vec::new()));

/// A browser for the time of a test. The last test of several at once ends the browsers.
pub struct Lease(Option<Browser>);

impl Lease {
    /// A browser with a new page, or why there is none.
    pub fn new() -> Result<Self, String> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.0 += 1;
        let found = idle.1.pop();
        drop(idle);
        let mut lease = Self(found);
        if lease.0.is_none() {
            lease.0 = Some(Browser::start()?);
        }
        lease.show_new_page()?;
        Ok(lease)
    }
}

impl Deref for Lease {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        self.0.as_ref().expect("a browser until the lease ends")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Browser {
        self.0.as_mut().expect("a browser until the lease ends")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.0 -= 1;
        // After a failure the browser may be in any state.
        let sound = self.0.take().filter(|_| !std::thread::panicking());
        idle.1.extend(sound);
        let ended = if idle.0 == 0 { std::mem::take(&mut idle.1) } else { Vec::new() };
        drop(idle);
        drop(ended);
    }
}

const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

impl Browser {
    fn start() -> Result<Self, String> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&paths)
            .flat_map(|dir| NAMES.iter().map(move |name| dir.join(name)))
            .find(|path| path.is_file())
            .ok_or("no Chromium on this machine")?;
        let profile = tempfile::tempdir().map_err(|error| error.to_string())?;
        // The pipe's ends are to be descriptors 3 and 4; timeout ends a browser whose test has
        // died.
        let mut child = Command::new("sh")
            .args(["-c", "exec timeout 600 \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(found)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-background-networking", "--no-first-run", "--hide-scrollbars"])
            .args(["--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let to = child.stdin.take().ok_or("no pipe")?;
        let from = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Self {
            child,
            to,
            from,
            session: None,
            context: Value::Null,
            calls: 0,
            events: Vec::new(),
            _profile: profile,
        })
    }

    fn show_new_page(&mut self) -> Result<(), String> {
        self.session = None;
        if let Value::String(context) = self.context.take() {
            self.try_call("Target.disposeBrowserContext", json!({ "browserContextId": context }))?;
        }
        self.events.clear();
        self.context =
            self.try_call("Target.createBrowserContext", json!({}))?["browserContextId"].take();
        let page = json!({ "url": "about:blank", "browserContextId": self.context });
        let page = self.try_call("Target.createTarget", page)?;
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.try_call("Target.attachToTarget", attach)?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.try_call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.to.write_all(&text).map_err(|error| format!("the browser is gone: {error}"))?;
        loop {
            let answer = self.next()?;
            if answer["id"] == self.calls {
                return match answer.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(answer["result"].clone()),
                };
            }
        }
    }

    /// The next message; events are kept.
    fn next(&mut self) -> Result<Value, String> {
        let mut text = Vec::new();
        self.from.read_until(0, &mut text).map_err(|error| error.to_string())?;
        if text.pop() != Some(0) {
            return Err("the browser ended".to_owned());
        }
        let message: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if message.get("method").is_some() {
            self.events.push(message.clone());
        }
        Ok(message)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap()
    }

    /// Shows the file `path` in a window so wide, with colours `light` or `dark`.
    pub fn open(&mut self, path: &Path, width: u32, colours: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.colours(colours);
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.next().unwrap();
        }
    }

    /// What the system is said to prefer.
    pub fn colours(&mut self, colours: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": colours });
        self.call("Emulation.setEmulatedMedia", json!({ "media": "", "features": [feature] }));
    }

    /// The value of a JavaScript expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => panic!("no code for {key}"),
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Everything the page complained of: the console, exceptions, violations of its policy.
    pub fn complaints(&mut self) -> Vec<Value> {
        self.value("new Promise((done) => setTimeout(done, 50))");
        let is_complaint = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or_default();
            ["Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"]
                .contains(&method)
        };
        self.events.iter().filter(is_complaint).cloned().collect()
    }

    /// The address of everything that was asked for.
    pub fn requests(&self) -> Vec<String> {
        let sent =
            self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned))
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let _ = self.try_call("Browser.close", json!({}));
        for _ in 0..100 {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
