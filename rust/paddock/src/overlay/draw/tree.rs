//! The processes of a launch as a tree, layer by layer.

use std::collections::{BTreeMap, BTreeSet};

use crate::keeper::Task;

/// A tree that is deeper is drawn as if it were not, with its depth in numbers.
const MOST_DEPTH: usize = 8;

/// One process, with its tasks taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process<'a> {
    pub(super) first: &'a Task,
    /// How many tasks of it are in the list.
    pub(super) tasks: usize,
    /// The first of its tasks that does not hold, else its first.
    pub(super) worst: &'a Task,
    pub(super) depth: usize,
}

impl Process<'_> {
    /// As it is drawn.
    pub(super) fn indent(&self) -> String {
        "  ".repeat(self.depth.min(MOST_DEPTH))
    }

    /// What cannot be seen by it.
    pub(super) fn depth_in_words(&self) -> String {
        let deeper = self.depth > MOST_DEPTH;
        if deeper { format!("({} deep) ", self.depth) } else { String::new() }
    }
}

/// The processes among `tasks`, each behind its parent, where that is among them.
pub(super) fn tree<'a>(tasks: impl Iterator<Item = &'a Task>) -> Vec<Process<'a>> {
    let mut processes: BTreeMap<i32, Process<'a>> = BTreeMap::new();
    for task in tasks {
        let holds = |task: &Task| matches!(task.verdict.as_str(), "confined" | "builder");
        let process = processes.entry(task.pid).or_insert(Process {
            first: task,
            tasks: 0,
            worst: task,
            depth: 0,
        });
        process.tasks += 1;
        if task.task == task.pid {
            process.first = task;
        }
        if holds(process.worst) && !holds(task) {
            process.worst = task;
        }
    }
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (pid, process) in &processes {
        match process.first.parent.map(confine::Pid::get) {
            Some(parent) if parent != *pid && processes.contains_key(&parent) => {
                children.entry(parent).or_default().push(*pid);
            }
            _ => roots.push(*pid),
        }
    }
    let mut drawn = Vec::new();
    let mut seen = BTreeSet::new();
    // Parents that were read one after the other may lead in a circle, which has no root.
    let all = processes.keys().copied().collect::<Vec<_>>();
    for root in roots.into_iter().chain(all) {
        let mut pending = vec![(root, 0)];
        while let Some((pid, depth)) = pending.pop() {
            let Some(process) = processes.get(&pid).filter(|_| seen.insert(pid)) else { continue };
            drawn.push(Process { depth, ..process.clone() });
            let below = children.get(&pid).into_iter().flatten().rev();
            pending.extend(below.map(|child| (*child, depth + 1)));
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pid: i32, task: i32, parent: i32, verdict: &str) -> Task {
        let parent = confine::Pid::new(parent);
        Task { pid, task, parent, verdict: verdict.into(), ..Task::default() }
    }

    fn drawn(tasks: &[Task]) -> Vec<(i32, usize, usize, &str)> {
        let processes = tree(tasks.iter()).into_iter();
        processes.map(|p| (p.first.pid, p.depth, p.tasks, p.worst.verdict.as_str())).collect()
    }

    #[test]
    fn every_process_is_drawn_once_behind_its_parent() {
        let tasks = [
            task(10, 10, 1, "confined"),
            task(30, 30, 10, "confined"),
            task(20, 20, 10, "confined"),
            task(20, 21, 10, "unknown"),
            task(25, 25, 20, "confined"),
        ];
        assert_eq!(
            drawn(&tasks),
            [
                (10, 0, 1, "confined"),
                (20, 1, 2, "unknown"),
                (25, 2, 1, "confined"),
                (30, 1, 1, "confined"),
            ]
        );
    }

    #[test]
    fn a_circle_of_parents_is_drawn_too() {
        let tasks = [task(10, 10, 20, "confined"), task(20, 20, 10, "confined")];
        assert_eq!(drawn(&tasks), [(10, 0, 1, "confined"), (20, 1, 1, "confined")]);
        assert_eq!(drawn(&[task(10, 10, 10, "confined")]), [(10, 0, 1, "confined")]);
    }
}
