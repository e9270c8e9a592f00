// Package partition is one replica of one partition: a log with producer state, leader epochs and watermarks.
package partition
