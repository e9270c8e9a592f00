//go:build referee

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/stratalog/strata"
)

// steerCluster does what lines of standard input say, "stop ID" and "start ID" of a broker, one
// after the other, and answers each on standard output: "done", or what is wrong. Connections to a
// broker that is stopped are for whoever asks for it to cut.
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
