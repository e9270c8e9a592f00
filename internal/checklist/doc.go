// Package checklist holds a test that keeps docs/checklist.md honest: every behaviour names a test
// that exists, or says that it is open.
package checklist
