//go:build referee

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/stratalog/strata"
)

// steerCluster executes commands from standard input, one per line: "stop ID" and "start ID" of a
// broker. It answers each on standard output with "done" or an error. It does not cut connections
// to a stopped broker: the test does that.
func steerCluster(c *strata.Cluster) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what string
		var id int32
		_, err := fmt.Sscan(lines.Text(), &what, &id)
		switch {
		case err != nil:
		case what == "stop":
			err = c.StopBroker(context.Background(), id)
		case what == "start":
			err = c.StartBroker(context.Background(), id)
		default:
			err = fmt.Errorf("neither stop nor start: %s", what)
		}
		if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("done")
		}
	}
}

func init() { steer = steerCluster }
