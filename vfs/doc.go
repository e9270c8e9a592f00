// Package vfs is the file system as Strata sees it.
package vfs
