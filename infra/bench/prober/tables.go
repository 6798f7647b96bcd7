package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/infra/bench/machine"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

// measureTables compares the emulator with what stands in for it, to show which
// of them the other benchmarks may use.
func measureTables(ctx context.Context, args []string) error {
	flags := newFlags("table")
	updates := flags.Int("updates", 20000, "`number` of updates")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Println(machine.Line())
	for _, emulator := range []bool{true, false} {
		port, stop, err := startServer(ctx, "serve-table", fmt.Sprintf("-emulator=%v", emulator))
		if err != nil {
			return err
		}
		rate, err := updateTable(ctx, port, emulator, *updates)
		stop()
		if err != nil {
			return err
		}
		name := "stand-in"
		if emulator {
			name = "kumo"
		}
		fmt.Printf("%s: %.0f updates a second, by 64 writers\n", name, rate)
	}
	return nil
}

// updateTable records results of servers in turn, and returns how many it
// recorded a second.
func updateTable(ctx context.Context, port int, create bool, updates int) (float64, error) {
	db := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(fmt.Sprintf("http://127.0.0.1:%d", port)),
		Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", ""),
	})
	if create {
		if _, err := storetest.CreateTables(ctx, db, "probes", "health"); err != nil {
			return 0, err
		}
	}
	const writers, servers = 64, 64 * 16 // so that a writer has its own servers
	rows := store.Probes{DynamoDB: db, Table: "probes"}
	begin := time.Now()
	failures := make([]error, writers)
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for i := w; i < updates && failures[w] == nil; i += writers {
				_, failures[w] = rows.Record(ctx, store.ProbeResult{
					Group: "group-0", Server: fmt.Sprintf("server-%d", i%servers), Address: "127.1.0.1:1812", Method: "pap",
					Round: begin.Add(time.Duration(i/servers) * time.Second), Outcome: health.Accept, Evidence: health.Success,
					Latency: time.Millisecond, Transactions: 1, Transmissions: 1, MessageAuthenticator: true,
				})
			}
		})
	}
	work.Wait()
	for _, err := range failures {
		if err != nil {
			return 0, err
		}
	}
	return float64(updates) / time.Since(begin).Seconds(), nil
}
