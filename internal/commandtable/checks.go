package commandtable

import "cmp"

// A check has the expected output and effect of a job.
type check struct {
	says  string            // regular expression of every tool's output
	other map[string]string // regular expressions for tools with another output, by column
	look  string            // command that shows the effect; "": none
	shows string            // regular expression of look's output
}

func (c check) prints(column string) string { return cmp.Or(c.other[column], c.says) }

// all matches the values of all records of the topic.
const all = `^a\nb\npaid\n$`

// checks has a check for each job of the page.
var checks = map[string]check{
	"create a topic":   {look: "strata topics describe orders", shows: `^orders: 1 partitions`},
	"list topics":      {says: `\borders\b`},
	"change a setting": {look: "strata topics describe orders", shows: `\n  retention.ms=3600000\n`},
	"describe a topic": {says: `(?s)\borders\b.*\b0\b`, other: map[string]string{"Kafka": `retention.ms=3600000`, "strata": `retention.ms=3600000`}},

	"produce lines":                     {look: "strata consume orders --values", shows: `^a\nb\n$`},
	"produce a key and a header":        {look: "strata consume orders --from 2 --format '%k=%v %h{%k:%v}'", shows: `^user-1=paid source:shop$`},
	"consume all there is":              {says: all},
	"consume from an offset":            {says: `^b\npaid\n$`},
	"consume from a time":               {says: all},
	"consume the last two":              {says: `^b\npaid\n$`},
	"print by a layout":                 {says: `^orders/0@0 =a\norders/0@1 =b\norders/0@2 user-1=paid\n$`, other: map[string]string{"Kafka": `^Partition:0\tOffset:0\tnull\ta\nPartition:0\tOffset:1\tnull\tb\nPartition:0\tOffset:2\tuser-1\tpaid\n$`}},
	"consume as a member of a group":    {says: all, look: "strata groups describe billing", shows: `\n  orders-0: committed 3 of 3, lag 0\n`},
	"copy a topic":                      {look: "strata consume copy --format '%k=%v\\n'", shows: `^=a\n=b\nuser-1=paid\n$`},
	"offsets of partitions":             {says: `orders:0:3`, other: map[string]string{"kcat": `orders \[0\] offset 3`, "strata": `^orders-0@3\n$`}},
	"delete records before an offset":   {look: "strata topics offsets orders --at earliest", shows: `^orders-0@1\n$`},
	"list groups":                       {says: `(?m)^billing\b`},
	"move a group to the first records": {look: "strata groups describe billing", shows: `\n  orders-0: committed 1 of 3, lag 2\n`},
	"describe a group, its lag":         {says: `orders\s+0\s+1\s+3\s+2\b`, other: map[string]string{"strata": `orders-0: committed 1 of 3, lag 2`}},
	"change a setting of a group":       {},
	"delete a group":                    {look: "strata groups list | grep -c ^billing || true", shows: `^0\n$`},
	"reset a share group":               {look: "strata shares describe jobs", shows: `\n  orders-0: start offset 1, lag 2\n`},
	"list share groups":                 {says: `(?m)^jobs\b`},
	"describe a share group":            {says: `jobs\s+orders\s+0\s+1\s+2\b`, other: map[string]string{"strata": `orders-0: start offset 1, lag 2`}},
	"delete a share group":              {look: "strata shares list", shows: `^$`},

	"allow a user to read":           {look: "strata acls list", shows: `^ALLOW User:alice READ from \* on LITERAL TOPIC:orders\n$`},
	"list access control entries":    {says: `(?i)User:alice\b[^\n]*\bread\b`},
	"remove an access control entry": {look: "strata acls list", shows: `^$`},
	"add a user (SCRAM)":             {look: "strata users list", shows: `^alice: SCRAM-SHA-256, \d+ iterations\n$`},
	"list users":                     {says: `alice.*SCRAM-SHA-256`},
	"remove a user":                  {look: "strata users list", shows: `^$`},
	"set a quota":                    {look: "strata quotas list", shows: `^client-id shop: producer_byte_rate=1048576\n$`},
	"list quotas":                    {says: `shop.*producer_byte_rate=1048576`},
	"remove a quota":                 {look: "strata quotas list", shows: `^$`},

	"list transactions":               {},
	"find transactions that hang":     {},
	"brokers":                         {says: `127\.0\.0\.1`},
	"bytes of a broker's directories": {says: `"partition":"orders-0"`, other: map[string]string{"strata": `broker 1 at .* \d+ bytes`}},
	"rates and lag, live":             {says: `topic orders: 0.0 offsets/s`},
	"decode a log file":               {says: `(?s)user-1.*paid`},
	"check every byte":                {says: `all good`},
	"copy a running cluster":          {look: "strata verify backup", shows: `all good`},
	"bring a backup back":             {look: "strata consume orders --values --dir restored", shows: `^b\npaid\n$`},
	"check a move to Kafka":           {says: `: ready for strata export\n$`},
	"give it to Kafka":                {look: "strata verify kafka", shows: `all good`},
	"take Kafka's directory over":     {look: "strata consume orders --values --dir imported", shows: `^b\npaid\n$`},
	"set the number of replicas":      {says: `^0 partitions reassigned\n$`},
	"more partitions":                 {look: "strata topics describe orders", shows: `^orders: 3 partitions`},
	"delete a topic":                  {look: "strata topics list", shows: `^(copy: [^\n]*\n)?$`},
}
