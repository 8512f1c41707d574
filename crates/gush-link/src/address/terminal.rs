//! Settings of terminals and serial lines, by the names of stty(1) and socat(1).

use std::fmt;

use rustix::io::Errno;
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OutputModes, SpecialCodeIndex, Termios,
};

/// The settings of a name (termios(3)).
#[derive(Debug)]
enum Effect {
    Input(InputModes),
    Output(OutputModes),
    Control(ControlModes),
    Local(LocalModes),
    /// The number of bits of a character.
    Size(ControlModes),
    Code(SpecialCodeIndex),
    Speed(Speeds),
    /// Many modes at once.
    Preset(fn(&mut Termios)),
}

/// Which speeds of a line.
#[derive(Debug, Clone, Copy)]
enum Speeds {
    Both,
    Input,
    Output,
}

#[derive(Debug)]
struct SettingRow {
    name: &'static str,
    /// Other names, those of socat(1) and stty(1).
    aliases: &'static [&'static str],
    effect: Effect,
}

macro_rules! rows {
    ($($name:literal $([$($alias:literal),*])? $effect:ident($value:expr);)*) => {
        &[$(SettingRow { name: $name, aliases: &[$($($alias),*)?], effect: Effect::$effect($value) }),*]
    };
}

const ROWS: &[SettingRow] = rows![
    "raw" ["cfmakeraw", "termios-cfmakeraw"] Preset(Termios::make_raw);
    "stty-raw" [] Preset(stty_raw);
    "rawer" ["termios-rawer"] Preset(rawer);
    "sane" [] Preset(sane);
    "echo" [] Local(LocalModes::ECHO);
    "ispeed" Speed(Speeds::Input);
    "ospeed" Speed(Speeds::Output);
    "cs5" Size(ControlModes::CS5);
    "cs6" Size(ControlModes::CS6);
    "cs7" Size(ControlModes::CS7);
    "cs8" Size(ControlModes::CS8);
    "cstopb" Control(ControlModes::CSTOPB);
    "parenb" Control(ControlModes::PARENB);
    "parodd" Control(ControlModes::PARODD);
    "cread" Control(ControlModes::CREAD);
    "hupcl" ["hup"] Control(ControlModes::HUPCL);
    "clocal" Control(ControlModes::CLOCAL);
    "crtscts" Control(ControlModes::CRTSCTS);
    "ignbrk" Input(InputModes::IGNBRK);
    "brkint" Input(InputModes::BRKINT);
    "ignpar" Input(InputModes::IGNPAR);
    "parmrk" Input(InputModes::PARMRK);
    "inpck" Input(InputModes::INPCK);
    "istrip" Input(InputModes::ISTRIP);
    "inlcr" Input(InputModes::INLCR);
    "igncr" Input(InputModes::IGNCR);
    "icrnl" Input(InputModes::ICRNL);
    "ixon" Input(InputModes::IXON);
    "ixany" Input(InputModes::IXANY);
    "ixoff" ["tandem"] Input(InputModes::IXOFF);
    "imaxbel" Input(InputModes::IMAXBEL);
    "opost" Output(OutputModes::OPOST);
    "onlcr" Output(OutputModes::ONLCR);
    "ocrnl" Output(OutputModes::OCRNL);
    "onocr" Output(OutputModes::ONOCR);
    "onlret" Output(OutputModes::ONLRET);
    "isig" Local(LocalModes::ISIG);
    "icanon" Local(LocalModes::ICANON);
    "echoe" ["crterase"] Local(LocalModes::ECHOE);
    "echok" Local(LocalModes::ECHOK);
    "echonl" Local(LocalModes::ECHONL);
    "echoctl" ["ctlecho"] Local(LocalModes::ECHOCTL);
    "echoprt" ["prterase"] Local(LocalModes::ECHOPRT);
    "echoke" ["crtkill"] Local(LocalModes::ECHOKE);
    "noflsh" Local(LocalModes::NOFLSH);
    "tostop" Local(LocalModes::TOSTOP);
    "iexten" Local(LocalModes::IEXTEN);
    "min" ["vmin"] Code(SpecialCodeIndex::VMIN);
    "time" ["vtime"] Code(SpecialCodeIndex::VTIME);
    "intr" ["vintr"] Code(SpecialCodeIndex::VINTR);
    "quit" ["vquit"] Code(SpecialCodeIndex::VQUIT);
    "erase" ["verase"] Code(SpecialCodeIndex::VERASE);
    "kill" ["vkill"] Code(SpecialCodeIndex::VKILL);
    "eof" ["veof"] Code(SpecialCodeIndex::VEOF);
    "eol" ["veol"] Code(SpecialCodeIndex::VEOL);
    "eol2" ["veol2"] Code(SpecialCodeIndex::VEOL2);
    "start" ["vstart"] Code(SpecialCodeIndex::VSTART);
    "stop" ["vstop"] Code(SpecialCodeIndex::VSTOP);
    "susp" ["vsusp"] Code(SpecialCodeIndex::VSUSP);
    "reprint" ["vreprint", "rprnt"] Code(SpecialCodeIndex::VREPRINT);
    "discard" ["vdiscard"] Code(SpecialCodeIndex::VDISCARD);
    "werase" ["vwerase"] Code(SpecialCodeIndex::VWERASE);
    "lnext" ["vlnext"] Code(SpecialCodeIndex::VLNEXT);
];

/// As stty(1) and socat(1) have `raw`: the echo, the size of characters and the parity stay.
fn stty_raw(settings: &mut Termios) {
    settings.input_modes &= InputModes::IUTF8;
    settings.output_modes -= OutputModes::OPOST;
    settings.local_modes -= LocalModes::ISIG | LocalModes::ICANON | LocalModes::XCASE;
    read_each_byte(settings);
}

/// As socat(1) has it: every mode is off, and the speed is 0, which hangs a modem up.
fn rawer(settings: &mut Termios) {
    settings.input_modes = InputModes::empty();
    settings.output_modes = OutputModes::empty();
    settings.control_modes = ControlModes::CREAD | ControlModes::CS8;
    settings.local_modes = LocalModes::empty();
    read_each_byte(settings);
}

fn read_each_byte(settings: &mut Termios) {
    settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
}

/// As socat(1) has it, which leaves `ixon` and the special characters that stty(1) sets, too.
fn sane(settings: &mut Termios) {
    settings.input_modes -= InputModes::IGNBRK
        | InputModes::INLCR
        | InputModes::IGNCR
        | InputModes::IXOFF
        | InputModes::IUCLC
        | InputModes::IXANY;
    settings.input_modes |= InputModes::BRKINT | InputModes::ICRNL | InputModes::IMAXBEL;
    // The delays, too, are off.
    settings.output_modes = OutputModes::OPOST | OutputModes::ONLCR;
    settings.control_modes |= ControlModes::CREAD;
    settings.local_modes -= LocalModes::ECHONL
        | LocalModes::NOFLSH
        | LocalModes::XCASE
        | LocalModes::TOSTOP
        | LocalModes::ECHOPRT;
    settings.local_modes |= LocalModes::ISIG
        | LocalModes::ICANON
        | LocalModes::IEXTEN
        | LocalModes::ECHO
        | LocalModes::ECHOE
        | LocalModes::ECHOK
        | LocalModes::ECHOCTL
        | LocalModes::ECHOKE;
}

/// `bN`, such as `b115200`: both speeds of a line.
const BAUD: SettingRow =
    SettingRow { name: "b", aliases: &[], effect: Effect::Speed(Speeds::Both) };

/// One setting, such as `b115200`, `echoctl=0` or `min=1`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    row: &'static SettingRow,
    /// A mode that is off has 0.
    value: u32,
}

impl Setting {
    /// Parses `name[=value]`; `None` if no setting has this name.
    pub fn read(name: &str, value: Option<&str>) -> Option<Result<Self, &'static str>> {
        let is_on = |value| match value {
            None => Some(1),
            Some(text) => super::value::flag(text).map(u32::from),
        };
        if let Some(baud) = name.strip_prefix(['b', 'B']).and_then(super::value::number) {
            return Some(match value {
                None => Ok(Self { row: &BAUD, value: baud }),
                Some(_) => Err("takes no value"),
            });
        }
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let row =
            ROWS.iter().find(|row| is(row.name) || row.aliases.iter().any(|name| is(name)))?;
        let value = match row.effect {
            Effect::Speed(_) => value
                .and_then(super::value::number)
                .ok_or("takes bits a second, such as ispeed=9600"),
            Effect::Code(_) => value
                .and_then(super::value::number::<u8>)
                .map(u32::from)
                .ok_or("takes the number of a byte, from 0 to 255"),
            Effect::Size(_) | Effect::Preset(_) => match value {
                None => Ok(1),
                Some(_) => Err("takes no value: write the name alone, or leave it out"),
            },
            _ => is_on(value).ok_or("is switched by 1, 0, yes, no, on, off, true or false"),
        };
        Some(value.map(|value| Self { row, value }))
    }

    /// Changes `settings`.
    ///
    /// # Errors
    /// `EINVAL` for a speed that no line has.
    pub fn change(&self, settings: &mut Termios) -> Result<(), Errno> {
        let on = self.value != 0;
        match self.row.effect {
            Effect::Input(mode) => settings.input_modes.set(mode, on),
            Effect::Output(mode) => settings.output_modes.set(mode, on),
            Effect::Control(mode) => settings.control_modes.set(mode, on),
            Effect::Local(mode) => settings.local_modes.set(mode, on),
            Effect::Size(size) => {
                settings.control_modes = (settings.control_modes - ControlModes::CSIZE) | size;
            }
            Effect::Preset(change) => change(settings),
            // Read as one byte.
            Effect::Code(index) => settings.special_codes[index] = self.value.to_le_bytes()[0],
            Effect::Speed(Speeds::Both) => settings.set_speed(self.value)?,
            Effect::Speed(Speeds::Input) => settings.set_input_speed(self.value)?,
            Effect::Speed(Speeds::Output) => settings.set_output_speed(self.value)?,
        }
        Ok(())
    }

    /// Every name, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ROWS.iter().flat_map(|row| [row.name].into_iter().chain(row.aliases.iter().copied()))
    }
}

/// By name, which is unique.
impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        (self.row.name, self.value) == (other.row.name, other.value)
    }
}

impl Eq for Setting {}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row: SettingRow { name, effect, .. }, value } = self;
        match (effect, value) {
            (Effect::Speed(Speeds::Both), _) => write!(f, "{name}{value}"),
            (Effect::Speed(_) | Effect::Code(_), _) | (_, 0) => write!(f, "{name}={value}"),
            _ => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_as_they_show() {
        for text in ["b115200", "cs8", "ixon", "ixon=0", "min=1", "ispeed=300"] {
            let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
            let setting = Setting::read(name, value).expect("a setting").expect("a value");
            assert_eq!(setting.to_string(), text);
        }
        for (text, canonical) in
            [("vmin=1", "min=1"), ("CRTERASE", "echoe"), ("tandem=0", "ixoff=0")]
        {
            let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
            let setting = Setting::read(name, value).expect("a setting").expect("a value");
            assert_eq!(setting.to_string(), canonical);
        }
        for text in ["cs8=1", "ixon=2", "min=256", "min", "ispeed", "b9600=1"] {
            let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
            assert!(Setting::read(name, value).expect("a setting").is_err(), "{text}");
        }
        assert!(Setting::read("b", None).is_none() && Setting::read("bind", None).is_none());
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<_> = Setting::names().collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, other| one < other));
    }
}
