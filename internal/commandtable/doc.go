// Package commandtable runs the commands of docs/howto/commands.md, one column at a time, and
// checks their effects. So every command on the page is tested.
//
// Every job has a check in checks: of the command's output, and of the state that the command
// strata shows afterwards. A job without a check, and a check without a job, fail the run.
package commandtable
