package cost

// Prices are public on-demand list prices of us-east-1 in dollars, without the
// free tier. Second-hand ones are from reports about AWS's price pages; nothing
// here was billed.
const (
	lambdaGBSecond   = 0.0000133334 // arm64, second-hand, Nov 2024
	lambdaRequest    = 0.20 / 1e6   // second-hand, Nov 2024
	schedulerCall    = 1.00 / 1e6   // EventBridge Scheduler, list price, Nov 2024
	dynamoDBWrite    = 0.625 / 1e6  // on demand, up to 1 KB; second-hand, Nov 2024
	dynamoDBRead     = 0.125 / 1e6  // on demand, strongly consistent, up to 4 KB; second-hand, Nov 2024
	logGB            = 0.50         // ingested; second-hand
	metricMonth      = 0.30         // unverified
	alarmMonth       = 0.10         // second-hand, 2026
	dashboardMonth   = 3.00         // unverified; the first three of up to 50 metrics are free
	secretMonth      = 0.40         // AWS's page
	secretRead       = 0.05 / 1e4   // list price, Nov 2024
	endpointZoneHour = 0.01         // interface endpoint; second-hand
	fargateVCPUHour  = 0.04048      // Linux, x86-64, list price, Nov 2024
	fargateGBHour    = 0.004445     // the same
	hoursInMonth     = 730
	secondsInMonth   = hoursInMonth * 3600
	minutesInMonth   = hoursInMonth * 60
	bytesInGB        = 1 << 30
)
