package log

// AlwaysShare is alwaysShare for tests outside of the package.
func AlwaysShare(d *Directory) error { return d.alwaysShare() }
