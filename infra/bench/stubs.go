package main
import "context"
func measureRound(ctx context.Context, args []string) error {return nil}
func measureDead(ctx context.Context, args []string) error {return nil}
func measureGrowth(ctx context.Context, args []string) error {return nil}
func measureShards(ctx context.Context, args []string) error {return nil}
func measureTables(ctx context.Context, args []string) error {return nil}
