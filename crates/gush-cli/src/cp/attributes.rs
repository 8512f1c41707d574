//! Metadata and links: `-a -d -p -P -L -H --preserve --no-preserve -Z`.

use std::ffi::OsStr;
use std::path::Path;

use gush_text::quote;
use gush_tree::{Dereference, Label, ModeRule, Preserve, Xattrs};

use super::choice::pick;
use super::command::Words;

/// The options that override each other, applied in the order given.
#[derive(Debug, Default)]
pub struct Attributes {
    pub preserve: Preserve,
    pub dereference: Option<Dereference>,
    /// `-a`: not all lost extended attributes are warned of.
    quiet: bool,
    requires_xattrs: bool,
    has_xattrs: bool,
    archive: bool,
    context: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
    Mode,
    Owner,
    Times,
    Links,
    Context,
    Xattrs,
    All,
}

pub const ATTRIBUTES: [(&str, Attribute); 7] = [
    ("mode", Attribute::Mode),
    ("timestamps", Attribute::Times),
    ("ownership", Attribute::Owner),
    ("links", Attribute::Links),
    ("context", Attribute::Context),
    ("xattr", Attribute::Xattrs),
    ("all", Attribute::All),
];

enum Order<'w> {
    Archive,
    LinksAsLinks,
    Follow(Dereference),
    Usual,
    Keep(&'w OsStr),
    Drop(&'w OsStr),
}

impl Attributes {
    pub fn read(words: &Words) -> Result<Self, String> {
        let flags = [
            ("archive", Order::Archive),
            ("d", Order::LinksAsLinks),
            ("no-dereference", Order::Follow(Dereference::Never)),
            ("dereference", Order::Follow(Dereference::Always)),
            ("H", Order::Follow(Dereference::Named)),
            ("p", Order::Usual),
        ];
        let mut orders: Vec<(usize, Order<'_>)> = flags
            .into_iter()
            .filter_map(|(name, order)| Some((words.place_of(name)?, order)))
            .collect();
        orders.extend(words.placed("preserve").map(|(at, list)| (at, Order::Keep(list))));
        orders.extend(words.placed("no-preserve").map(|(at, list)| (at, Order::Drop(list))));
        orders.sort_by_key(|(at, _)| *at);
        let mut attributes = Self::default();
        for (_, order) in orders {
            attributes.follow(order)?;
        }
        attributes.settle_xattrs();
        Ok(attributes)
    }

    fn follow(&mut self, order: Order<'_>) -> Result<(), String> {
        match order {
            Order::Archive => {
                self.archive = true;
                self.quiet = true;
                self.has_xattrs = true;
                self.dereference = Some(Dereference::Never);
                self.preserve.links = true;
                self.keep_usual();
            }
            Order::LinksAsLinks => {
                self.preserve.links = true;
                self.dereference = Some(Dereference::Never);
            }
            Order::Follow(which) => self.dereference = Some(which),
            Order::Usual => self.keep_usual(),
            Order::Keep(list) => {
                self.set_all("--preserve", list, true)?;
                self.preserve.required = true;
            }
            Order::Drop(list) => self.set_all("--no-preserve", list, false)?,
        }
        Ok(())
    }

    fn keep_usual(&mut self) {
        self.preserve.mode = ModeRule::Keep;
        self.preserve.owner = true;
        self.preserve.times = true;
        self.preserve.required = true;
    }

    fn set_all(&mut self, option: &str, list: &OsStr, on: bool) -> Result<(), String> {
        let text = list.to_string_lossy();
        for name in text.split(',') {
            self.set(pick(option, name.as_ref(), &ATTRIBUTES)?, on);
        }
        Ok(())
    }

    fn set(&mut self, attribute: Attribute, on: bool) {
        let is = |which| attribute == which || attribute == Attribute::All;
        let preserve = &mut self.preserve;
        if is(Attribute::Mode) {
            preserve.mode = if on { ModeRule::Keep } else { ModeRule::Fresh };
        }
        if is(Attribute::Owner) {
            preserve.owner = on;
        }
        if is(Attribute::Times) {
            preserve.times = on;
        }
        if is(Attribute::Links) {
            preserve.links = on;
        }
        if is(Attribute::Xattrs) {
            self.has_xattrs = on;
        }
        match attribute {
            Attribute::Xattrs => self.requires_xattrs = on,
            Attribute::Context => self.context = on,
            Attribute::All => self.archive = on,
            _ => {}
        }
    }

    fn settle_xattrs(&mut self) {
        self.preserve.xattrs = match (self.has_xattrs, self.requires_xattrs, self.quiet) {
            (false, ..) => Xattrs::Leave,
            (true, true, _) => Xattrs::Require,
            (true, false, true) => Xattrs::Try,
            (true, false, false) => Xattrs::Warn,
        };
    }

    /// The SELinux label. The kernel is asked only if an option requires it.
    pub fn label(&self, words: &Words, warnings: &mut Vec<String>) -> Result<Label, String> {
        let set = words.text("context");
        if set.is_none() && !self.context && !self.archive {
            return Ok(Label::Leave);
        }
        let enabled = Path::new("/sys/fs/selinux/enforce").exists();
        if self.context && !enabled {
            return Err("cannot preserve security context without an SELinux-enabled kernel".into());
        }
        match set {
            Some(_) if self.context => Err("cannot set target context and preserve it".into()),
            Some(label) if enabled => {
                create_with(label, warnings)?;
                Ok(Label::Leave)
            }
            Some(label) => {
                if !label.is_empty() {
                    let text = "warning: ignoring --context; it requires an SELinux-enabled kernel";
                    warnings.push(text.into());
                }
                Ok(Label::Leave)
            }
            None if self.context => Ok(Label::Require),
            None if enabled => Ok(Label::Try),
            None => Ok(Label::Leave),
        }
    }
}

/// Makes the kernel give new files this label.
fn create_with(label: &OsStr, warnings: &mut Vec<String>) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt;
    if label.is_empty() {
        warnings
            .push("warning: ignoring -Z: the kernel's default labels apply; see restorecon".into());
        return Ok(());
    }
    std::fs::write("/proc/thread-self/attr/fscreate", label.as_bytes()).map_err(|error| {
        let shown = quote::always(Path::new(label));
        let why = gush_text::os_text(&error);
        format!("failed to set default file creation context to {shown}: {why}")
    })
}
