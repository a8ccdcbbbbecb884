"""SDR: Table 1, Examples 1-4, Tables 2-3, Figs. 2-6."""

from __future__ import annotations

from sfumato_papers.experiment import Experiment
from sfumato_papers.sdr.balanced import estimates, occ_by_level, occ_by_size
from sfumato_papers.sdr.examples import examples, table_1
from sfumato_papers.sdr.partitions import distributions, table_2, table_3
from sfumato_papers.sdr.risk import at_equal_risk
from sfumato_papers.sdr.skewed import edu_by_level, edu_by_size
from sfumato_papers.sdr.times import run_times

EXPERIMENTS = (
    Experiment("sdr-table1", "SDR", "Table 1", "How little large domains retain", table_1),
    Experiment("sdr-examples", "SDR", "Examples 1-4", "42 records cut in two", examples),
    Experiment("sdr-table2", "SDR", "Table 2", "Retention on OCC", table_2),
    Experiment("sdr-table3", "SDR", "Table 3", "Sub-tables of OCC", table_3),
    Experiment("sdr-fig2", "SDR", "Fig. 2, upper", "Errors of counts on OCC, by L", occ_by_level),
    Experiment("sdr-fig2-size", "SDR", "Fig. 2, lower", "Errors of counts on OCC, by size", occ_by_size),
    Experiment("sdr-equal-risk", "SDR", "Fig. 2, at equal risk", "Errors at equal measured risk", at_equal_risk),
    Experiment("sdr-fig3", "SDR", "Fig. 3", "Estimated and actual counts on OCC", estimates),
    Experiment("sdr-fig4", "SDR", "Fig. 4, upper", "Errors of counts on EDU, by L", edu_by_level),
    Experiment("sdr-fig4-size", "SDR", "Fig. 4, lower", "Errors of counts on EDU, by size", edu_by_size),
    Experiment("sdr-fig5", "SDR", "Fig. 5", "Run times", run_times),
    Experiment("sdr-fig6", "SDR", "Fig. 6", "How often the values of OCC and EDU occur", distributions),
)
