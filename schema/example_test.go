package schema_test

import (
	"encoding/json"
	"fmt"

	"github.com/stratalog/strata/schema"
)

func Example() {
	type order struct{ Item string }
	registry := &schema.Memory{} // or a client of a registry server
	write := schema.Serializer(schema.Config{
		Registry: registry,
		Schema:   schema.Schema{Type: schema.JSON, Text: `{"type": "object"}`},
	}, func(o order) ([]byte, error) { return json.Marshal(o) })
	read := schema.Decoder(registry, func(w schema.Written) (o order, err error) {
		return o, json.Unmarshal(w.Bytes, &o)
	})

	value, err := write("orders", order{Item: "tea"})
	fmt.Printf("%q %v\n", value, err)
	fmt.Println(read(value))
	// Output:
	// "\x00\x00\x00\x00\x01{\"Item\":\"tea\"}" <nil>
	// {tea} <nil>
}
