// Package commandtable runs the commands of docs/commands.md, one column at a time, and looks at
// what each has done: the page and the tests that run it cannot drift apart.
//
// Every job has a check in checks: what the command must print, and what the command strata must
// show afterwards. A job without a check, and a check without a job, fail the run.
package commandtable
