// What a launch script would run, word by word.
#include "shell/shell.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/override.h"
#include "base/problem.h"

namespace pipeledger {
namespace {

ShellScript run(const std::string& text, const std::vector<Override>& environment = {}) {
  return run_shell(text, "x.sh", environment);
}

/// A line a command, words in brackets.
std::string commands_of(const std::string& text, const std::vector<Override>& environment = {}) {
  std::string out;
  for (const ShellCommand& command : run(text, environment).commands) {
    for (const ShellWord& word : command.words) out += "[" + word.text + "]";
    out += '\n';
  }
  return out;
}

std::string problem_of(const std::string& text) {
  try {
    run(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(Shell, AnArrayIsAsManyWordsAsItHas) {
  EXPECT_EQ(commands_of("A=(--x 1  # a comment (with brackets)\n"
                        "   --y \"2 3\")\n"
                        "A+=(--z)\n"
                        "go ${A[@]} \"${A[@]}\" ${#A[@]} ${A[3]}\n"),
            "[go][--x][1][--y][2][3][--z][--x][1][--y][2 3][--z][5][2][3]\n");
}

TEST(Shell, AStringFallsIntoWordsUnlessItIsQuoted) {
  EXPECT_EQ(commands_of("A=\" --x 1 \\\n  --y 2\"\nA+=\" --z\"\ngo $A \"$A\" '$A'\n"),
            "[go][--x][1][--y][2][--z][ --x 1   --y 2 --z][$A]\n");
}

TEST(Shell, DefaultsAndOperators) {
  EXPECT_EQ(commands_of("B=ab.c.d\n"
                        "go ${A:-1} ${B:-2} ${B:+3} ${A:+4} ${C:=5} $C ${#B} ${B%.*} ${B%%.*} "
                        "${B#*.} ${B##*.} ${B/./-} ${B//./-} ${B:1:2} ${B^^} ${B^}\n"),
            "[go][1][ab.c.d][3][5][5][6][ab.c][ab][c.d][d][ab-c.d][ab-c-d][b.][AB.C.D][Ab.c.d]\n");
}

TEST(Shell, SumsAreWorkedOut) {
  EXPECT_EQ(commands_of("N=4; G=8\ngo $((N*$G)) $(( (N+1) ** 2 % 7 )) $((N > 3 ? 10 : 20)) "
                        "$(expr $N \\* $G) $((0x10 | 1)) $((-7 / 2))\n"
                        "((N++)); ((N += 2)); go $N\n"),
            "[go][32][4][10][32][17][-3]\n[go][7]\n");
}

TEST(Shell, OnlyTheBranchTakenRuns) {
  EXPECT_EQ(commands_of("M=7b\n"
                        "if [ $M = 1b ]; then go 1\n"
                        "elif [[ $M == 7* && -z \"$NONE\" ]]; then go 7\n"
                        "else go other; fi\n"
                        "case $M in 1b|2b) go small;; [78]b) go big;; *) go any;; esac\n"
                        "[ 3 -gt 2 ] && go yes || go no\n"
                        "((3 < 2)) || go or\n"),
            "[go][7]\n[go][big]\n[go][yes]\n[go][or]\n");
}

TEST(Shell, LoopsAndFunctions) {
  EXPECT_EQ(commands_of("for t in 1 2; do go $t; done\n"
                        "for ((i = 0; i < 2; i++)); do go $i; done\n"
                        "while [[ $# -gt 0 ]]; do shift; done\n"
                        "launch() { local n=$1; go $n \"${2:-none}\"; }\n"
                        "launch 3\nlaunch 4 five\n"),
            "[go][1]\n[go][2]\n[go][0]\n[go][1]\n[go][3][none]\n[go][4][five]\n");
}

TEST(Shell, AScriptInAWordIsRead) {
  EXPECT_EQ(commands_of("C=\"python train.py --x 1\"\n"
                        "srun -N 2 bash -c \"$C\"\n"
                        "eval $C --y\n"
                        "sbatch <<EOF\n"
                        "srun $C --z\n"
                        "EOF\n"
                        "go 1\n"),
            "[python][train.py][--x][1]\n[python][train.py][--x][1][--y]\n"
            "[sbatch]\n[srun][python][train.py][--x][1][--z]\n[go][1]\n");
  const ShellScript script = run("srun -N 2 bash -c 'python train.py --x 1'");
  EXPECT_EQ(script.commands.at(0).launcher.at(2).text, "2");
}

TEST(Shell, AWordKnowsWhereItWasWritten) {
  const ShellScript script = run("A=\"--x 1 \\\n  --y 22\"\nB=(\n  --z\n)\ngo $A ${B[@]}\n");
  const std::vector<ShellWord>& words = script.commands.at(0).words;
  EXPECT_EQ(words.at(4).text, "22");
  EXPECT_EQ(words.at(4).position, (Position{"x.sh", 2, 7}));
  EXPECT_EQ(words.at(5).text, "--z");
  EXPECT_EQ(words.at(5).position, (Position{"x.sh", 4, 3}));
}

TEST(Shell, WhatNothingSetsIsUnknownAndSaysWhy) {
  const auto why = [](const std::string& text) {
    return run(text).commands.at(0).words.at(1).unknown.value_or(ShellUnknown{}).sentence();
  };
  EXPECT_EQ(why("go $A"), "depends on A, which nothing sets; add --set-env A=value");
  EXPECT_EQ(why("A=$(nproc); go x$A"),
            "depends on A, the output of \"nproc\" (line 1); add --set-env A=value");
  EXPECT_EQ(why("TP=${10}; go $TP"),
            "depends on TP, argument 10 of the script; add --set-env TP=value");
  EXPECT_EQ(why("if [ 1 = 2 ]; then A=1; fi; go $A"),
            "depends on A, which only a branch that is not taken sets (line 1); add --set-env "
            "A=value");
  EXPECT_EQ(why("if [ -f x ]; then A=1; fi; go $A"),
            "depends on A, which is set at line 1 if a test of \"x\"; add --set-env A=value");
  EXPECT_EQ(why("A=$((B + 1)); go $A"), "depends on B, which nothing sets; add --set-env B=value");
}

TEST(Shell, TheEnvironmentWinsAgainstTheScript) {
  EXPECT_EQ(commands_of("A=1\nB=${B:-2}\ngo $A $B $1\n", {{"A", "10"}, {"B", "20"}, {"1", "30"}}),
            "[go][10][20][30]\n");
}

TEST(Shell, SlurmsLinesSetItsVariables) {
  EXPECT_EQ(commands_of("#!/bin/bash\n#SBATCH --nodes=4 # four\n#SBATCH --gres=gpu:h100:8\n"
                        "#SBATCH --ntasks-per-node 2\n"
                        "go $SLURM_NNODES $SLURM_GPUS_ON_NODE $SLURM_NTASKS_PER_NODE\n"),
            "[go][4][8][2]\n");
}

TEST(Shell, RedirectionsAndPipesAreNotWords) {
  EXPECT_EQ(commands_of("go 1 2>&1 > out.txt < in | tee -a log &\ngo 2 &>all\n"),
            "[go][1]\n[tee][-a][log]\n[go][2]\n");
}

TEST(Shell, SaysWhatIsNoCommand) {
  EXPECT_EQ(problem_of("go \"a\nb"), "x.sh:1:4: \" is never closed");
  EXPECT_EQ(problem_of("if true; then go\n"), "x.sh:1:1: if without its fi");
  EXPECT_EQ(problem_of("go\n  done\n"), "none");
  EXPECT_EQ(problem_of("A=(1 2\n"), "x.sh:1:3: ( is never closed");
  EXPECT_EQ(problem_of("go --x 1 \\ \n  --y 2\n"),
            "x.sh:1:10: blanks behind the backslash end the command here; remove them, or the next "
            "line does not belong to it");
  EXPECT_EQ(problem_of("go $((1/0))"), "x.sh:1:4: \"1/0\" divides by zero");
}

TEST(Shell, ProgramsWhoseWorkIsWorkedOut) {
  EXPECT_EQ(commands_of("F=/a/b/run.tar.gz; A=\"x=1\"; N=4\n"
                        "go $(basename $F) $(basename $F .gz) $(dirname $F) $(dirname run) "
                        "$(echo $A | cut -f2 -d=) $(echo $A | cut -d= -f1 | tr a-z A-Z) "
                        "$(seq -s , 1 3) $(wc -w <<< \"a b  c\") $(echo a.b | sed 's/\\./-/g') "
                        "$(echo \"q w e\" | awk '{print $2}') $(bc <<< \"scale=2; ($N + 1) / 3\") "
                        "$(printf '%03d' $N) $(echo \"3 1 2\" | tr ' ' '\\n' | sort | tail -n 1) "
                        "`expr $N + 1`\n"),
            "[go][run.tar.gz][run.tar][/a/b][.][1][X][1,2,3][3][a-b][w][1.66][004][3][5]\n");
}

TEST(Shell, ASubstitutionIsAShellOfItsOwn) {
  EXPECT_EQ(commands_of("join_by() { local IFS=$1; shift; echo \"$*\"; }\n"
                        "size() { if [ \"$1\" = 7B ]; then echo 32; else echo 80; fi; }\n"
                        "N=1\n"
                        "L=$(N=2; size 7B)\n"
                        "go $L $N $([ $N = 1 ] && echo yes || echo no) $(eval echo {1..3}) "
                        "$(echo one; echo two | tr o 0)\n"),
            "[go][32][1][yes][1][2][3][one][tw0]\n");
}

TEST(Shell, WhatOnlyARunTellsStaysUnknown) {
  for (const char* text :
       {"nvidia-smi -L | wc -l", "cat hosts | wc -l", "cut -f1 hosts", "sed 's/a\\+/b/' <<< aa",
        "echo $UNSET | cut -c1", "date +%s", "printf %x 3", "wc -w < hosts", "pwd | cut -c1"}) {
    const ShellScript script = run(fmt::format("go $({})\n", text));
    ASSERT_EQ(script.commands.size(), 1u) << text;
    ASSERT_TRUE(script.commands[0].words[1].unknown) << text;
    EXPECT_EQ(script.commands[0].words[1].unknown->why,
              fmt::format("the output of \"{}\" (line 1)", text));
  }
}

TEST(Shell, BracesAreAWordForEach) {
  EXPECT_EQ(commands_of("go {1..3} a{x,y}b {3..1} {a} ${A:-{}} {1..x} {0..5..2} {9..1..4}\n"),
            "[go][1][2][3][axb][ayb][3][2][1][{a}][{}][{1..x}][0][2][4][9][5][1]\n");
}

TEST(Shell, ArgumentsOfTheScriptAreItsNumbers) {
  const ShellScript script = run_shell("shift; go $1 ${2:-none} $#\n", "x.sh", {}, {}, {"a", "7B"});
  EXPECT_EQ(script.commands[0].words[1].text, "7B");
  EXPECT_EQ(script.commands[0].words[2].text, "none");
  EXPECT_EQ(script.commands[0].words[3].text, "1");
}

TEST(Shell, AnExitOverWhatIsNotSetIsPassedOver) {
  EXPECT_EQ(commands_of("if [ -z \"$DATA\" ]; then echo set it; exit 1; fi\n"
                        "[[ -z $MORE ]] && exit 2\n"
                        "case $SIZE in 7B) N=1;; *) exit 1;; esac\n"
                        "go on\nif [ 1 = 1 ]; then exit 1; fi\nnot me\n"),
            "[go][on]\n");
  EXPECT_EQ(commands_of("if [ -z \"$DATA\" ]; then exit 0; fi\nnot me\n"), "");
}

TEST(Shell, AScriptInSingleQuotesIsRunWithTheVariables) {
  EXPECT_EQ(commands_of("export L='run --nodes 2' CMD='train.py --layers 4'\n"
                        "srun -N 2 bash -c '$L --rank $RANK $CMD'"),
            "[run][--nodes][2][--rank][$RANK][train.py][--layers][4]\n");
}

TEST(Shell, HostileScriptsEnd) {
  std::string doubling = "A=xxxxxxxx\n";
  for (int i = 0; i < 40; ++i) doubling += "A=$A$A\n";
  EXPECT_NE(problem_of(doubling).find("makes more than"), std::string::npos);
  EXPECT_EQ(problem_of("while true; do go; done"), "none");
  EXPECT_NE(problem_of("f() { f; }; f").find("too deep"), std::string::npos);
  EXPECT_NE(problem_of(std::string(5000, '(')), "none");
  std::string sums = "A0=1\n";
  for (int i = 0; i < 40; ++i) sums += fmt::format("A{}='A{}+A{}'\n", i + 1, i, i);
  EXPECT_NE(problem_of(sums + "go $((A40))"), "none");
}

}  // namespace
}  // namespace pipeledger
