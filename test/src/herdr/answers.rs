//! The replies of the stand-in that has Paddock as its plugin.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pane::{Pane, Program};
use super::plugin_host::{Shared, words};

type Answer = Result<Value, (&'static str, String)>;

impl Shared {
    /// Answers a request, and remembers it.
    pub(super) fn answer(self: &Arc<Self>, request: &Value) -> Value {
        let fault = self.schema.fault_of_request(request);
        self.lock().received.push(request.clone());
        let answer = match fault {
            Some(fault) => {
                self.lock().faults.push(fault.clone());
                Err(("invalid_request", fault))
            }
            None => {
                self.perform(request["method"].as_str().unwrap_or_default(), &request["params"])
            }
        };
        let reply = match answer {
            Ok(result) => json!({ "id": request["id"], "result": result }),
            Err((code, message)) => {
                json!({ "id": request["id"], "error": { "code": code, "message": message } })
            }
        };
        if let Some(fault) = self.schema.fault_of_reply(&reply) {
            self.lock().faults.push(fault);
        }
        reply
    }

    fn perform(self: &Arc<Self>, method: &str, params: &Value) -> Answer {
        let ok = || Ok(json!({ "type": "ok" }));
        let pane = params["pane_id"].as_str().unwrap_or_default();
        if let Some(left) = self.lock().refusals.get_mut(&(method.to_owned(), pane.to_owned()))
            && let Some(fewer) = left.checked_sub(1)
        {
            *left = fewer;
            return Err(("internal_error", "as the test wants it".into()));
        }
        match method {
            "ping" => Ok(json!({ "type": "pong", "version": "0.8.0", "protocol": 20 })),
            "pane.get" => {
                let (id, pane) = self.find(params)?;
                Ok(json!({ "type": "pane_info", "pane": self.describe(&id, &pane) }))
            }
            "pane.process_info" => {
                let (id, pane) = self.find(params)?;
                let (group, members) = pane.foreground();
                let members: Vec<Value> =
                    members.iter().map(|pid| json!({ "pid": pid, "name": "x" })).collect();
                let info = json!({
                    "pane_id": id, "shell_pid": pane.pid, "foreground_process_group_id": group,
                    "foreground_processes": members,
                });
                Ok(json!({ "type": "pane_process_info", "process_info": info }))
            }
            "pane.focus" => {
                let (id, pane) = self.find(params)?;
                self.lock().focused = Some(id.clone());
                Ok(json!({ "type": "pane_info", "pane": self.describe(&id, &pane) }))
            }
            "pane.send_text" => {
                let (_, pane) = self.find(params)?;
                pane.terminal.send(params["text"].as_str().unwrap_or_default());
                ok()
            }
            "pane.report_metadata" => {
                let (id, _) = self.find(params)?;
                let mut state = self.lock();
                if let Some(title) = params["title"].as_str() {
                    state.titles.insert(id, title.to_owned());
                } else if params["clear_title"] == true {
                    state.titles.remove(&id);
                }
                ok()
            }
            "pane.report_agent" | "pane.release_agent" => self.find(params).and_then(|_| ok()),
            "notification.show" => {
                let shown = self.lock().shows_notifications;
                let reason = if shown { "shown" } else { "disabled" };
                Ok(json!({ "type": "notification_show", "shown": shown, "reason": reason }))
            }
            "server.reload_config" => {
                Ok(json!({ "type": "config_reload", "status": "applied", "diagnostics": [] }))
            }
            "plugin.pane.open" => self.open(params),
            "layout.export" => {
                let (id, _) = self.find(params)?;
                let pane = |id: &str| json!({ "type": "pane", "pane_id": id });
                let root = json!({
                    "type": "split", "direction": "right", "ratio": 0.5,
                    "first": pane("w1:p0"), "second": pane(&id),
                });
                Ok(json!({ "type": "layout_export", "layout": layout(&id, &root) }))
            }
            "layout.set_split_ratio" => {
                let (id, _) = self.find(params)?;
                let root = json!({ "type": "pane", "pane_id": id });
                Ok(json!({ "type": "layout_split_ratio_set", "layout": layout(&id, &root) }))
            }
            _ => Err(("invalid_request", format!("{method} is not one that the stand-in knows"))),
        }
    }

    fn find(&self, params: &Value) -> Result<(String, Arc<Pane>), (&'static str, String)> {
        let named = params["pane_id"].as_str().unwrap_or_default();
        self.find_id(named)
    }

    fn find_id(&self, named: &str) -> Result<(String, Arc<Pane>), (&'static str, String)> {
        let state = self.lock();
        let id = state.aliases.get(named).map_or(named, String::as_str);
        let found = state.panes.get(id).map(|pane| (id.to_owned(), pane.clone()));
        found.ok_or(("pane_not_found", format!("pane {named} not found")))
    }

    fn describe(&self, id: &str, pane: &Pane) -> Value {
        let workspace = id.split(':').next().unwrap_or_default();
        json!({
            "pane_id": id, "terminal_id": format!("t-{}", pane.pid), "workspace_id": workspace,
            "tab_id": format!("{workspace}:t1"), "cwd": pane.cwd, "agent_status": "unknown",
            "focused": self.lock().focused.as_deref() == Some(id), "revision": 1,
        })
    }

    fn open(self: &Arc<Self>, params: &Value) -> Answer {
        let entrypoint = params["entrypoint"].as_str().unwrap_or_default();
        if params["plugin_id"] != "paddock" {
            return Err(("plugin_not_found", "no such plugin".into()));
        }
        let panes = self.manifest["panes"].as_array().into_iter().flatten();
        let entry = panes.into_iter().find(|pane| pane["id"].as_str() == Some(entrypoint));
        let entry = entry.ok_or(("plugin_pane_not_found", format!("no pane {entrypoint}")))?;
        let placement = params["placement"].as_str().or(entry["placement"].as_str());
        let placement = placement.unwrap_or("overlay");
        let has = |name: &str| !params[name].is_null();
        let is_over = matches!(placement, "overlay" | "popup");
        if is_over && (has("target_pane_id") || has("workspace_id") || has("direction")) {
            return Err(("invalid_params", "not with that placement".into()));
        }
        if let Some(target) = params["target_pane_id"].as_str() {
            self.find_id(target)?;
        }
        let is_popup = placement == "popup";
        if is_popup && self.lock().popup.as_ref().is_some_and(|popup| popup.has_ended().is_none()) {
            return Err(("plugin_pane_open_failed", "popup already open".into()));
        }
        let id = self.new_pane_id("w1");
        let is_short = self.lock().cuts_panes_short;
        let program = Program {
            command: if is_short { vec!["true".into()] } else { words(&entry["command"]) },
            cwd: params["cwd"].as_str().map_or_else(|| self.plugin_root(), PathBuf::from),
            environment: self.plugin_pane_environment((!is_popup).then_some(&*id), &params["env"]),
        };
        let failed = |e: std::io::Error| ("plugin_pane_open_failed", e.to_string());
        if is_popup {
            let popup = Arc::new(Pane::start(&program).map_err(failed)?);
            self.lock().popup = Some(popup);
            return Ok(json!({ "type": "ok" }));
        }
        let pane = self.start_pane(&id, &program).map_err(failed)?;
        if params["focus"] == true {
            self.lock().focused = Some(id.clone());
        }
        let described = self.describe(&id, &pane);
        let opened = json!({ "plugin_id": "paddock", "entrypoint": entrypoint, "pane": described });
        Ok(json!({ "type": "plugin_pane_opened", "plugin_pane": opened }))
    }
}

fn layout(pane: &str, root: &Value) -> Value {
    json!({
        "workspace_id": "w1", "tab_id": "w1:t1", "zoomed": false, "focused_pane_id": pane,
        "root": root,
    })
}
