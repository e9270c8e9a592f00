// Command twins checks that the tests in the checklist fail if the behaviour of their row is
// broken.
//
// A twin is a small edit of the code that breaks one behaviour. The command applies it with go
// test's -overlay, so that no file of the tree changes, and runs the tests that the twin names.
// Each of them must fail. A twin whose tests pass is a survivor: the test does not check the
// promise of its row. A test that fails without the edit catches nothing and is reported.
//
//	go run ./internal/twins -check            no test: formats, names, whether edits fit and build
//	go run ./internal/twins -row 95,D2        the twins of these rows
//	go run ./internal/twins -area consumer    the twins of rows/consumer.txt
//	go run ./internal/twins -changed main     the twins that changed since a revision
//	go run ./internal/twins -sample 15        a random sample of the selected twins, by -seed
//	go run ./internal/twins                   all
//
// # Writing a twin
//
// Break the code by hand, run the named test and see it fail. Copy the output of git diff into a
// file of internal/twins/rows, which has one file per area:
//
//	row 24
//	breaks an open log continues with the segment size it was opened with
//	test log.TestNewSegmentSizeAppliesToAnOpenLog
//	file log/reconfigure.go
//	-	l.cfg.Store(&cfg)
//	+	_ = cfg
//
// The lines of a twin, in this order:
//
//	row     a row of the checklist, several with commas, or another promise:
//	        "promise: readable never disappears". May come several times.
//	breaks  one sentence: the effect on a user
//	test    package.Test, several with commas; each must fail. A package is its directory, or the
//	        last element of it if that is unique; the module's root goes by the module's last
//	        element. Test/subtest runs one subtest. At least one test of a checklist row must be
//	        named by the row.
//	hangs   optional, a duration: the broken code may block for ever, so that a run longer than
//	        this counts as caught. Without it a timeout (2 minutes) does not count.
//	file    the file that is edited, from the module's root. Then lines that begin with
//	        "-" (removed), "+" (added in its place) or a blank (kept, to make the place unique).
//	        A line "@@" begins another edit of the same file. May come several times.
//
// Old lines (- and kept) must follow each other exactly once in the file. Blanks at both ends of a
// line do not count. An edit that only inserts keeps the line beside it. Test files are not edited.
// The other tests in the packages of a twin's tests are not compiled if these build without them.
// An empty line ends a twin's edit. A line that begins with # is a comment, except inside an edit.
//
// # Results
//
// The command prints one line per twin: caught, SURVIVED, does not build (an edit that does not
// compile proves nothing), does not apply, times out, fails without it, does not run. The exit code
// is 0 only if all are caught. With -count each test runs that many times and must fail each time.
// With -tries the tests of a survivor run again. A twin that is caught then is WEAK: its test fails
// by chance.
package main
