// Package checklist reads rows.txt: the behaviours that Strata must show, and the tests of each.
// Its own test fails when a row names no test, or a missing one. [internal/twins] breaks the
// behaviours and checks that their tests fail.
//
// [internal/twins]: https://pkg.go.dev/github.com/stratalog/strata/internal/twins
package checklist
